"""Hands a transaction's outputs to its producer, and hears which of them were in a batch that is refused.

On the transactions' thread. Only errors are reported: the commit stands for all that is not.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException

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
NO_REFUSALS: Final = CONSEQUENCES | {
    KafkaError._MSG_TIMED_OUT,  # noqa: SLF001 - librdkafka's own codes start with an underscore
    KafkaError._STATE,  # noqa: SLF001
    KafkaError._TRANSPORT,  # noqa: SLF001
    KafkaError._TIMED_OUT,  # noqa: SLF001
}


class SomeRefusedError(Exception):
    """The broker, or the client, refuses some of what is sent: the transaction is to be aborted."""


class Sending:
    """What one transaction sends, by one producer."""

    def __init__(self, client: Any, *, busy: Collection[int], is_over: Callable[[], bool]) -> None:
        """`busy` are errors by which the broker throttles. `is_over`: nobody needs it any more."""
        self._client = client
        self._no_refusals = NO_REFUSALS | set(busy)
        self._is_over = is_over
        # Brokers refuse whole batches: who was in one, as topic, key and value. By `send` and inside of the
        # client's calls, all on one thread.
        self.suspects: set[tuple[str, Any, Any]] = set()

    def send(self, outputs: Iterable[Held]) -> None:
        """Hand them over in their order. Raises `KafkaException`, `SomeRefusedError`."""
        for one in outputs:
            if isinstance(one, Bundle):
                self._send_bundle(one)
            else:
                self._send_one(one)
            if self.suspects:
                raise SomeRefusedError

    def _send_bundle(self, bundle: Bundle) -> None:
        columns = bundle.columns
        if not any(columns.headers):
            for start in range(0, len(bundle), BATCH_OUTPUTS):
                end = start + BATCH_OUTPUTS
                self._send_batch(bundle.topic, columns.keys[start:end], columns.values[start:end])
            return
        for key, value, headers in zip(columns.keys, columns.values, columns.headers, strict=True):
            self._produce(bundle.topic, value, key, -1, headers)

    def _send_batch(self, topic: str, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        self._wait_for_room()
        pairs = zip(keys, values, strict=True)
        messages: list[dict[str, Any]] = [{"key": key, "value": value} for key, value in pairs]
        taken = self._client.produce_batch(topic, messages, on_delivery=self._reported)
        if taken != len(messages):
            # The next ones of its key may have been taken.
            for error, message in [(each["_error"], each) for each in messages if "_error" in each]:
                if error.code() in self._no_refusals:
                    raise KafkaException(error)
                self.suspects.add((topic, message["key"], message["value"]))
        self._client.poll(0)

    def _send_one(self, output: Sent) -> None:
        try:
            self._produce(output.topic, output.value, output.key, output.partition, output.headers)
        except (KafkaException, TypeError, ValueError) as failed:  # headers may hold anything
            if isinstance(failed, KafkaException) and failed.args[0].code() in self._no_refusals:
                raise
            self.suspects.add(mark_of(output))

    def _produce(self, topic: str, value: Any, key: Any, partition: int, headers: Any) -> None:
        given = {} if headers is None else {"headers": headers}
        while True:
            self._wait_for_room()
            try:
                self._client.produce(topic, value, key, partition, self._reported, **given)
            except BufferError:
                self._client.poll(ROOM_POLL_S)
                if self._is_over():
                    raise KafkaException(KafkaError(KafkaError._STATE, "it is over")) from None  # noqa: SLF001
            else:
                return

    def _wait_for_room(self) -> None:
        while len(self._client) > IN_CLIENT_MAX and not self._is_over():
            self._client.poll(ROOM_POLL_S)

    def _reported(self, error: KafkaError | None, message: Any) -> None:
        """Take the report for one of many. Called for errors alone: see the producer's properties."""
        if error is not None and error.code() not in self._no_refusals:
            self.suspects.add((message.topic(), message.key(), message.value()))


def mark_of(output: Sent) -> tuple[str, Any, Any]:
    """Return what a report tells of an output."""
    return output.topic, output.key, output.value


def settle_reports(client: Any, timeout_s: float) -> None:
    """Hear what is still to be reported of a transaction that was aborted."""
    ends_s = time.monotonic() + timeout_s
    while len(client) and time.monotonic() < ends_s:
        client.poll(ROOM_POLL_S)
