"""Hands a transaction's outputs to its client, and hears which of them were in a batch that is refused.

On the transactions' thread. Only errors are reported: the commit stands for all that is not.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException

from ehkafka.errors import describe
from ehkafka.outputs.answers import CONSEQUENCES, TAKEN_BACK, refused_error
from ehkafka.outputs.output import PARTS, OutputRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

# So many are handed over between two looks for errors, and so many may be in the client: half of its queue.
SLICE: Final = 500
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


class Handing:
    """What one transaction sends, in parts between which the client's queue is empty."""

    def __init__(
        self, client: Any, flat: list[Any], *, busy: Collection[int], is_over: Callable[[], bool]
    ) -> None:
        """`busy` are errors by which the broker throttles. `is_over`: the transaction is not wanted."""
        self._client = client
        self._flat = flat
        self._no_refusals = NO_REFUSALS | set(busy)
        self._is_over = is_over
        # The part under way: its number, and places in `flat`. None: all of it.
        self.number = 0
        self.places: list[int] | None = None
        # The broker did not take something, whatever the reason.
        self.has_failed = False
        # What was named, and why: topic, value and key of what was in a refused batch. Filled inside of the
        # client's calls.
        self.named: dict[tuple[str, Any, Any], OutputRefusedError] = {}
        # What the client itself refuses.
        self.refused: tuple[int, OutputRefusedError] | None = None

    def hand_all(self) -> None:
        """Hand over all, in its order. Raises `KafkaException` or `SomeRefusedError`."""
        self._hand(range(len(self._flat) // PARTS))

    def hand_parts(self, parts: Iterable[tuple[int, list[int]]]) -> None:
        """Hand over parts, each once the one before was taken. Raises likewise."""
        for self.number, self.places in parts:
            self._hand(self.places)
            while len(self._client):
                self._poll(ROOM_POLL_S)

    def named_places(self) -> list[int]:
        """Return the places in the part under way of what was named."""
        if not self.named:
            return []
        topics, values, keys = (self._flat[part::PARTS] for part in (2, 3, 4))
        places = range(len(topics)) if self.places is None else self.places
        return [n for n in places if (topics[n], values[n], keys[n]) in self.named]

    @property
    def part_size(self) -> int:
        """How many outputs the part under way has."""
        return len(self._flat) // PARTS if self.places is None else len(self.places)

    def settle(self, timeout_s: float) -> None:
        """Hear what is still to be reported of a transaction that was aborted."""
        ends_s = time.monotonic() + timeout_s
        while len(self._client) and time.monotonic() < ends_s:
            try:
                self._client.poll(ROOM_POLL_S)
            except KafkaException:
                return  # it has ended: the next transaction finds it so

    def reported(self, error: KafkaError | None, message: Any) -> None:
        """Take the report for one of many. Called by the client, inside of its calls."""
        if error is None or error.code() in TAKEN_BACK:
            return
        self.has_failed = True
        if error.code() not in self._no_refusals:
            mark = message.topic(), message.value(), message.key()
            self.named[mark] = refused_error(error)

    def _hand(self, places: range | list[int]) -> None:
        for start in range(0, len(places), SLICE):
            some = places[start : start + SLICE]
            handed = self._hand_run(some) if isinstance(some, range) else 0
            for place in some[handed:]:
                self._hand_one(place)
            self._poll(0.0)
            while len(self._client) > IN_CLIENT_MAX:
                self._poll(ROOM_POLL_S)

    def _hand_run(self, places: range) -> int:
        """Hand over outputs that stand together; return how many of them could be."""
        flat = self._flat[places.start * PARTS : places.stop * PARTS]
        produce, handed = self._client.produce, 0
        try:
            for topic, value, key, headers, partition in zip(
                *(flat[part::PARTS] for part in range(2, PARTS)), strict=True
            ):
                if headers is None:
                    produce(topic, value, key, partition)
                else:
                    produce(topic, value, key, partition, headers=headers)
                handed += 1
        except Exception:  # whatever it is: the one output that it is about raises it once more
            return handed
        return handed

    def _hand_one(self, place: int) -> None:
        topic, value, key, headers, partition = self._flat[place * PARTS + 2 : (place + 1) * PARTS]
        given = {} if headers is None else {"headers": headers}
        while True:
            try:
                self._client.produce(topic, value, key, partition, **given)
            except BufferError:
                self._poll(ROOM_POLL_S)
            except KafkaException as failed:
                if failed.args[0].code() in self._no_refusals:
                    raise
                self.refused = place, refused_error(failed.args[0])
                raise SomeRefusedError from None
            except Exception as failed:  # headers may hold anything
                self.refused = place, OutputRefusedError(describe(failed))
                raise SomeRefusedError from None
            else:
                return

    def _poll(self, timeout_s: float) -> None:
        self._client.poll(timeout_s)
        if self.named:
            raise SomeRefusedError
        if self._is_over():
            raise KafkaException(KafkaError(KafkaError._STATE, "it is over"))  # noqa: SLF001
