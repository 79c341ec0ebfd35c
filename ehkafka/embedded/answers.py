"""The prepared answers of a mock cluster: which requests are to fail, or to be slow.

librdkafka keeps a queue for the cluster and one per broker. Once a broker has one for a
request type, even an empty one, the cluster's is never asked there again, and only the
cluster's can be cleared. Callers need not know that: this module
chooses the queue, and refuses what would be ignored. Called by `broker` alone.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError

from ehkafka.embedded.mock_cluster import EmbeddedBrokerError
from ehkafka.embedded.numbers import is_whole
from ehkafka.embedded.requests import ApiKey, check_api_key, check_code
from ehkafka.errors import ConfigurationError
from ehkafka.records.client_codes import ClientCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ehkafka.embedded.mock_cluster import MockCluster

# What a variadic C function takes: two numbers for each answer.
_TIMES_MAX: Final = 500
_WITH_METADATA: Final = frozenset({KafkaError.NO_ERROR, ClientCode.TRANSPORT})


class AnswerQueues:
    """Prepared answers of one cluster with broker ids 1…`brokers`."""

    def __init__(self, cluster: MockCluster, brokers: int) -> None:
        self._cluster = cluster
        self._brokers = brokers
        self._own: set[tuple[ApiKey, int]] = set()

    def fail(self, api_key: ApiKey, codes: Sequence[int], broker_id: int | None) -> None:
        """Queue one error per coming request."""
        api_key = check_api_key(api_key)
        if not codes:
            raise ConfigurationError(f"fail_next({api_key.name}) needs at least one error code.")
        _check_effect(api_key, codes)
        if broker_id is None and self._brokers == 1 and (api_key, 1) in self._own:
            broker_id = 1
        if broker_id is not None:
            self._push_own(broker_id, api_key, [(code, 0) for code in codes])
            return
        if any(key == api_key for key, _ in self._own):
            raise ConfigurationError(
                f"A broker with its own queue of answers to {api_key.name} does not use the cluster's queue. "
                "Give broker_id= for each broker that is to fail."
            )
        array = (ctypes.c_int * len(codes))(*codes)
        self._cluster.call("rd_kafka_mock_push_request_errors_array", api_key, len(codes), array)

    def delay(self, api_key: ApiKey, delay_ms: int, times: int, code: int, broker_id: int | None) -> None:
        """Queue `times` slow answers on one broker, or on each."""
        api_key = check_api_key(api_key)
        if not is_whole(times, 1, _TIMES_MAX):
            raise ConfigurationError(
                f"delay_next({api_key.name}): times={times!r:.80}: give 1 to {_TIMES_MAX}."
            )
        _check_effect(api_key, [code])
        for one in range(1, self._brokers + 1) if broker_id is None else (broker_id,):
            self._push_own(one, api_key, [(code, delay_ms)] * times)

    def clear(self, api_key: ApiKey) -> None:
        """Empty the cluster's queue; raise if a broker's own still holds answers."""
        api_key = check_api_key(api_key)
        self._cluster.call("rd_kafka_mock_clear_request_errors", api_key)
        for broker_id in range(1, self._brokers + 1):
            left = ctypes.c_size_t()
            self._cluster.call("rd_kafka_mock_broker_error_stack_cnt", broker_id, api_key, ctypes.byref(left))
            if left.value:
                raise EmbeddedBrokerError(
                    f"{left.value} answer(s) to {api_key.name} still wait on broker {broker_id}, and "
                    "librdkafka cannot empty one broker's queue. Queue only answers that the test uses."
                )

    def _push_own(self, broker_id: int, api_key: ApiKey, answers: Sequence[tuple[int, int]]) -> None:
        # The function is variadic: what follows the declared arguments goes as C ints.
        pairs = [ctypes.c_int(number) for answer in answers for number in answer]
        self._cluster.call(
            "rd_kafka_mock_broker_push_request_error_rtts", broker_id, api_key, len(answers), *pairs
        )
        self._own.add((api_key, broker_id))


def _check_effect(api_key: ApiKey, codes: Iterable[int]) -> None:
    codes = [check_code(code) for code in codes]
    # librdkafka takes the error off the queue and answers with the metadata all the same.
    if api_key == ApiKey.METADATA and not _WITH_METADATA.issuperset(codes):
        raise ConfigurationError(
            "A metadata request cannot be answered with an error as a whole. "
            "Use set_topic_error(), or KafkaError._TRANSPORT to close the connection."
        )
