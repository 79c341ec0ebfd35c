"""What polls have returned, and what may be committed of it.

`begin` and `took_*` are called by the polling thread, everything else by any. Knows no consumer: messages
come in, positions go out. It never looks at a key, value or header.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE
from confluent_kafka.cimpl import Message
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.progress.ledger import Position
from ehkafka.progress.metadata import LogFacts
from ehkafka.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence


_topic: Any = Message.topic
_partition: Any = Message.partition

Positions = dict[TopicPartition, Position]

# So many messages are kept to be looked at later: one of each partition, and any of them may be large.
UNREAD_MAX = 16


class Returned:
    """How far polls have returned each partition.

    What the latest poll returned is kept apart: the program may still be busy with it.
    """

    def __init__(self) -> None:
        # Whether there is something of a latest poll. Polling thread.
        self.has_latest = False
        # Written by the polling thread; replaced or updated in one step, read by any.
        self._earlier: Positions = {}
        self._latest: Positions = {}
        # What the latest `poll` returned, and the last that earlier ones did of a partition, both not yet
        # looked at.
        self._message: Message | None = None
        self._unread: dict[Any, Message] = {}
        # From where the program has gone back, until something of the partition is returned again.
        self._left: Positions = {}
        # Whether all that is assigned is of one topic: partitions then go by their numbers.
        self._is_one_topic = False

    def begin(self) -> None:
        """A poll begins: what the one before returned has been in the program's hands."""
        message = self._message
        if message is not None:
            unread = self._unread
            unread[message.partition() if self._is_one_topic else (message.topic(), message.partition())] = (
                message
            )
            self._message = None
            if len(unread) > UNREAD_MAX:
                self._settle()
        if self._latest:
            self._settle()
            self._earlier.update(self._latest)
            self._latest = {}
        self.has_latest = False

    def took_one(self, message: Message) -> None:
        """`poll` returns this; looked at later, because this is the path of every record."""
        if message.error() is None:
            self._message = message
            self.has_latest = True

    def took(self, messages: Sequence[Message]) -> None:
        """`consume` returns these."""
        last = self._last_of_each(messages)
        if any(message.error() is not None for message in last):
            last = messages
        self._latest = _positions(last)
        self.has_latest = True

    def earlier(self) -> Positions:
        """Return what polls before the latest one have returned."""
        # In this order, as in `now`: what moves in between is seen twice rather than not at all.
        unread = list(self._unread.values())
        found = dict(self._earlier)
        found.update(_positions(unread))
        return found

    def now(self) -> Positions:
        """Return what polls have returned by now."""
        message, latest = self._message, self._latest
        found = self._left | self.earlier()
        found.update(latest)
        if message is not None:
            found.update(_positions([message]))
        return found

    def last(self, partition: TopicPartition) -> int | None:
        """Return where the last record that was returned ended, None before the first. Polling thread."""
        self._settle()
        found = self._earlier.get(partition)
        return None if found is None else found.next_offset

    def passed(
        self, partition: TopicPartition, last: int | None, next_offset: int, leader_epoch: int | None
    ) -> None:
        """Behind `last` no record came up to an offset. Between two polls; polling thread."""
        if last == self.last(partition):
            self._earlier[partition] = _beyond(self._earlier.get(partition), next_offset, leader_epoch)

    def assigned(self, names: Collection[TopicPartition]) -> None:
        """These are all that is assigned from now on. Polling thread."""
        self._settle()
        self._is_one_topic = len({name.topic for name in names}) == 1

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop partitions that are not ours any more. Polling thread."""
        self._settle()
        for partition in partitions:
            self._left.pop(partition, None)
            self._earlier.pop(partition, None)
            self._latest.pop(partition, None)
            if self._message is not None and _place(self._message) == partition:
                self._message = None

    def sought(self, partition: TopicPartition, offset: int) -> None:
        """The program goes to an offset; if that is back, it is not done with what it had been given.

        `now` has it all the same, as confluent-kafka has.
        """
        position = self.now().get(partition)
        if position is not None and not 0 <= position.next_offset <= offset:
            self.forget([partition])
            self._left[partition] = position

    def _last_of_each(self, messages: Sequence[Message]) -> Collection[Message]:
        if not self._is_one_topic:
            places = zip(map(_topic, messages), map(_partition, messages), strict=True)
            return dict(zip(places, messages, strict=True)).values()
        numbers = list(map(_partition, messages))
        if numbers.count(numbers[-1]) == len(numbers):  # as it mostly is
            return messages[-1:]
        return dict(zip(numbers, messages, strict=True)).values()

    def _settle(self) -> None:
        if self._unread:
            self._earlier.update(_positions(self._unread.values()))
            self._unread.clear()


class Stored:
    """What `store_offsets` was given, where `enable.auto.offset.store` is off. Any thread."""

    def __init__(self) -> None:
        self._positions: Positions = {}

    def store(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Take the program's word."""
        self._positions.update(positions)

    def passed(
        self, partition: TopicPartition, last: int | None, next_offset: int, leader_epoch: int | None
    ) -> None:
        """Behind `last` no record came up to an offset; of use only if the program has stored all before."""
        known = self._positions.get(partition)
        if last == (None if known is None else known.next_offset):
            self._positions[partition] = _beyond(known, next_offset, leader_epoch)

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
        facts=LogFacts(witness=None if kind == TIMESTAMP_NOT_AVAILABLE else (offset, timestamp_ms)),
    )


def position_of(given: KafkaPartition) -> tuple[TopicPartition, Position]:
    """Return what a program's own `TopicPartition` says."""
    return TopicPartition(given.topic, given.partition), Position(
        0, given.offset, given.leader_epoch, given.metadata
    )


def _beyond(known: Position | None, next_offset: int, leader_epoch: int | None) -> Position:
    base = Position(0, next_offset) if known is None else known
    return base._replace(next_offset=next_offset, leader_epoch=leader_epoch)


def _positions(messages: Iterable[Message]) -> Positions:
    return dict(behind(message) for message in messages if message.error() is None)


def _place(message: Message) -> tuple[object, object]:
    return message.topic(), message.partition()
