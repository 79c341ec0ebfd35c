"""Hands a transaction's outputs to its producer, and hears which of them are refused.

On the transactions' thread. In the usual way no output has a report of its own: the commit stands for all. A
*careful* producer sends each by itself, and tells which one the broker refuses.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException

from ehkafka.endpoint.client import describe_error
from ehkafka.errors import describe
from ehkafka.outputs.answers import CONSEQUENCES
from ehkafka.outputs.bundle import Bundle

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from ehkafka.outputs.claim import Output
    from ehkafka.transactions.book import Held
    from ehkafka.transactions.letters import LetterOutput

    Sent = Output | LetterOutput

# So many are handed over while Python's lock is held, and so many may be in the client: half of its queue.
BATCH_OUTPUTS: Final = 500
IN_CLIENT_MAX: Final = 50_000
ROOM_POLL_S: Final = 0.01
# A message that ends so says nothing of itself: the transaction failed, or the broker is away or busy.
_NO_REFUSALS: Final = CONSEQUENCES | {
    KafkaError._MSG_TIMED_OUT,  # noqa: SLF001 - librdkafka's own codes start with an underscore
    KafkaError._STATE,  # noqa: SLF001
    KafkaError._TRANSPORT,  # noqa: SLF001
    KafkaError._TIMED_OUT,  # noqa: SLF001
}


class CarefullyAgainError(Exception):
    """Something was refused, and nobody knows which output: the same again by a careful producer."""


class Sending:
    """What one transaction sends, by one producer."""

    def __init__(
        self, client: Any, *, careful: bool, busy: Collection[int], is_over: Callable[[], bool]
    ) -> None:
        """`busy` are errors by which the broker throttles. `is_over`: nobody needs it any more."""
        self._client = client
        self._careful = careful
        self._no_refusals = _NO_REFUSALS | set(busy)
        self._is_over = is_over
        # By `send` and inside of the client's calls, all on one thread: what is refused, and whether anything
        # is, of which nobody knows which.
        self.refused: list[tuple[Sent, str]] = []
        self.needs_care = False

    def send(self, outputs: Iterable[Held]) -> None:
        """Hand them over in their order. Raises `KafkaException`, `CarefullyAgainError`.

        A careful one takes single outputs alone.
        """
        for one in outputs:
            if isinstance(one, Bundle):
                self._send_bundle(one)
            else:
                self._send_one(one)
            self.check()

    def check(self) -> None:
        """Raise `CarefullyAgainError` once something is refused: the transaction is aborted in any case."""
        if self.needs_care or self.refused:
            raise CarefullyAgainError

    def _send_bundle(self, bundle: Bundle) -> None:
        columns = bundle.columns
        if not any(columns.headers):
            for start in range(0, len(bundle), BATCH_OUTPUTS):
                end = start + BATCH_OUTPUTS
                self._send_batch(bundle.topic, columns.keys[start:end], columns.values[start:end])
            return
        for key, value, headers in zip(columns.keys, columns.values, columns.headers, strict=True):
            self._produce(bundle.topic, value, key, -1, headers, self._reported)

    def _send_batch(self, topic: str, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        self._wait_for_room()
        messages = [{"key": key, "value": value} for key, value in zip(keys, values, strict=True)]
        taken = self._client.produce_batch(topic, messages, on_delivery=self._reported)
        if taken != len(messages):
            # The next ones of its key may have been taken. The transaction is aborted in any case.
            self.needs_care = True
        self._client.poll(0)

    def _send_one(self, output: Sent) -> None:
        reported = partial(self._reported_one, output) if self._careful else self._reported
        try:
            self._produce(output.topic, output.value, output.key, output.partition, output.headers, reported)
        except KafkaException as failed:
            if failed.args[0].code() in self._no_refusals:
                raise
            self._refuse(output, describe_error(failed.args[0]))
        except (TypeError, ValueError, UnicodeError) as failed:  # headers may hold anything
            self._refuse(output, describe(failed))

    def _produce(
        self, topic: str, value: Any, key: Any, partition: int, headers: Any, reported: Callable[..., None]
    ) -> None:
        given = {} if headers is None else {"headers": headers}
        while True:
            self._wait_for_room()
            try:
                self._client.produce(topic, value, key, partition, reported, **given)
            except BufferError:
                self._client.poll(ROOM_POLL_S)
                if self._is_over():
                    raise KafkaException(KafkaError(KafkaError._STATE, "it is over")) from None  # noqa: SLF001
            else:
                return

    def _wait_for_room(self) -> None:
        while len(self._client) > IN_CLIENT_MAX and not self._is_over():
            self._client.poll(ROOM_POLL_S)

    def _refuse(self, output: Sent, error: str) -> None:
        self.refused.append((output, error))

    def _reported(self, error: KafkaError | None, _message: Any) -> None:
        """Take the report for one of many. Called for errors alone: see the producer's properties."""
        if error is not None and error.code() not in self._no_refusals:
            self.needs_care = True

    def _reported_one(self, output: Sent, error: KafkaError | None, _message: Any) -> None:
        if error is not None and error.code() not in self._no_refusals:
            self._refuse(output, describe_error(error))


def settle_reports(client: Any, timeout_s: float) -> None:
    """Hear what is still to be reported of a transaction that was aborted."""
    ends_s = time.monotonic() + timeout_s
    while len(client) and time.monotonic() < ends_s:
        client.poll(ROOM_POLL_S)
