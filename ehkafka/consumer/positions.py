"""What polls have returned, and what may be committed of it.

`begin` and `took_*` are called by the polling thread, everything else by any. Knows no consumer: messages
come in, positions go out. It never looks at a key, value or header.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import confluent_kafka

from ehkafka.progress.ledger import Position
from ehkafka.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from confluent_kafka import Message

_topic: Any = confluent_kafka.Message.topic
_partition: Any = confluent_kafka.Message.partition

Positions = dict[TopicPartition, Position]


class Returned:
    """How far polls have returned each partition.

    What the latest poll returned is kept apart: the program may still be busy with it.
    """

    def __init__(self) -> None:
        # Written by the polling thread; replaced or updated in one step, read by any.
        self._earlier: Positions = {}
        self._latest: Positions = {}
        # What the latest `poll` returned, and what earlier ones did of one partition, both not yet looked
        # at: mostly the next one is of the same.
        self._message: Message | None = None
        self._before: Message | None = None
        # Whether all that is assigned is of one topic. Written with the assignment.
        self.one_topic = False

    def begin(self) -> None:
        """A poll begins: what the one before returned has been in the program's hands."""
        message = self._message
        if message is not None:
            before = self._before
            if before is not None and not self._is_same_partition(before, message):
                self._earlier.update(_last_of([before]))
            self._before, self._message = message, None
        elif self._latest:
            self._settle()
            self._earlier.update(self._latest)
            self._latest = {}

    def took_one(self, message: Message) -> None:
        """`poll` returns this; looked at later, because this is the path of every record."""
        if message.error() is None:
            self._message = message

    def took(self, messages: Sequence[Message]) -> None:
        """`consume` returns these. What was kept for the latest poll before them counts as well."""
        if self.one_topic:
            of_partition = dict(zip(map(_partition, messages), messages, strict=True))
            last: Iterable[Message] = of_partition.values()
        else:
            places = zip(map(_topic, messages), map(_partition, messages), strict=True)
            last = dict(zip(places, messages, strict=True)).values()
        if any(message.error() is not None for message in last):
            last = messages
        self._latest = _last_of(last)

    def earlier(self) -> Positions:
        """Return what polls before the latest one have returned."""
        # In this order, as in `now`: what moves in between is seen twice rather than not at all.
        before = self._before
        found = dict(self._earlier)
        if before is not None:
            found.update(_last_of([before]))
        return found

    def now(self) -> Positions:
        """Return what polls have returned by now."""
        message, latest = self._message, self._latest
        found = self.earlier()
        found.update(latest)
        if message is not None:
            found.update(_last_of([message]))
        return found

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop partitions that are not ours any more. Polling thread."""
        self.begin()
        self._settle()
        for partition in partitions:
            self._earlier.pop(partition, None)

    def _settle(self) -> None:
        if self._before is not None:
            self._earlier.update(_last_of([self._before]))
            self._before = None

    def _is_same_partition(self, one: Message, other: Message) -> bool:
        return one.partition() == other.partition() and (self.one_topic or one.topic() == other.topic())


class Stored:
    """What `store_offsets` was given, where `enable.auto.offset.store` is off. Any thread."""

    def __init__(self) -> None:
        self._positions: Positions = {}

    def store(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Take the program's word."""
        self._positions.update(positions)

    def now(self) -> Positions:
        """Return what was stored last."""
        return dict(self._positions)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop partitions that are not ours any more."""
        for partition in partitions:
            self._positions.pop(partition, None)


def behind(message: Message) -> tuple[TopicPartition, Position]:
    """Return the partition of a message without error, and the position behind it."""
    offset: int = message.offset()  # type: ignore[assignment]
    kind, timestamp_ms = message.timestamp()
    return TopicPartition(message.topic(), message.partition()), Position(  # type: ignore[arg-type]
        0,
        offset + 1,
        message.leader_epoch(),
        anchor=None if kind == confluent_kafka.TIMESTAMP_NOT_AVAILABLE else (offset, timestamp_ms),
    )


def position_of(given: confluent_kafka.TopicPartition) -> tuple[TopicPartition, Position]:
    """Return what a program's own `TopicPartition` says."""
    return TopicPartition(given.topic, given.partition), Position(
        0, given.offset, given.leader_epoch, given.metadata
    )


def _last_of(messages: Iterable[Message]) -> Positions:
    return dict(behind(message) for message in messages if message.error() is None)
