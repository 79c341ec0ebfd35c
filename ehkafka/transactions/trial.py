"""Finds out which of the outputs in a refused batch the broker does not take.

On the transactions' thread: each suspect goes in a request of its own, in a transaction that is aborted
whatever comes out, so that nobody ever sees it. The first refusal ends such a transaction; the rest is tried
in the next one.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException

from ehkafka.endpoint.client import describe_error
from ehkafka.errors import describe
from ehkafka.transactions.hanging import HANGS_S, call_within
from ehkafka.transactions.sending import NO_REFUSALS, ROOM_POLL_S, settle_reports

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ehkafka.transactions.sending import Sent

# All trials of one aborted transaction, and its calls. What is not tried by then is suspected again.
TRIAL_S: Final = 10.0
CALL_S: Final = 1.0


class Trial:
    """The trial of some outputs by a careful producer."""

    def __init__(self, client: Any, *, busy: Collection[int], is_over: Callable[[], bool]) -> None:
        self._client = client
        self._no_refusals = NO_REFUSALS | set(busy)
        self._is_over = is_over
        self._refused: list[tuple[Sent, str]] = []
        # Not reported yet.
        self._left: dict[Sent, None] = {}

    def refused(self, suspects: Collection[Sent]) -> list[tuple[Sent, str]]:
        """Return which are refused, each with the reason.

        Raises `KafkaException` or `HangsError` where that stays open.
        """
        self._left = dict.fromkeys(suspects)
        ends_s = time.monotonic() + TRIAL_S
        while self._left and time.monotonic() < ends_s and not self._is_over():
            before = len(self._left)
            self._client.begin_transaction()
            try:
                self._send(ends_s)
            finally:
                self._abort(ends_s)
            if len(self._left) == before:
                break
        return self._refused

    def _abort(self, ends_s: float) -> None:
        while True:
            try:
                call_within(lambda: self._client.abort_transaction(CALL_S), HANGS_S)
            except KafkaException as failed:
                if not failed.args[0].retriable() or time.monotonic() >= ends_s or self._is_over():
                    raise
            else:
                settle_reports(self._client, CALL_S)
                return

    def _send(self, ends_s: float) -> None:
        known = len(self._refused)
        for output in list(self._left):
            given = {} if output.headers is None else {"headers": output.headers}
            place = output.topic, output.value, output.key, output.partition
            try:
                self._client.produce(*place, partial(self._reported, output), **given)
            except KafkaException as failed:
                self._reported(output, failed.args[0], None)
            except BufferError:
                break
            except Exception as failed:  # headers may hold anything
                self._refuse(output, describe(failed))
            if len(self._refused) > known:
                return
        while len(self._client) and len(self._refused) == known and time.monotonic() < ends_s:
            self._client.poll(ROOM_POLL_S)

    def _reported(self, output: Sent, error: KafkaError | None, _message: Any) -> None:
        if error is None:
            self._left.pop(output, None)
        elif error.code() not in self._no_refusals:
            self._refuse(output, describe_error(error))

    def _refuse(self, output: Sent, error: str) -> None:
        if output in self._left:
            del self._left[output]
            self._refused.append((output, error))


def alike(refused: Collection[Sent], outputs: Collection[Sent], known: Collection[Sent]) -> list[Sent]:
    """Return the outputs that are refused, perhaps, if these are, but for those that are `known` already.

    Brokers refuse what is too large for a topic, and what has no key where it is compacted.
    """
    least: dict[str, int] = {}
    keyless = {one.topic for one in refused if one.key is None}
    for one in refused:
        least[one.topic] = min(one.size, least.get(one.topic, one.size))
    tried = set(known)
    return [
        one
        for one in outputs
        if one not in tried
        and one.topic in least
        and (one.size >= least[one.topic] or (one.key is None and one.topic in keyless))
    ]
