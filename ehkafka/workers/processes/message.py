"""A message as it travels to a worker process: its fields as a tuple, and what reads like a `Message` there.

confluent's `Message` cannot be pickled, so the fields are copied. Pure values; a batch is a tuple of lanes,
each with what its records have in common, because topic and partition repeat.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ehkafka.headers.taking import take_headers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from confluent_kafka import KafkaError

    from ehkafka.lanes.lane import Lane
    from ehkafka.records import Headers, Message

# offset, key, value, headers, timestamp, leader epoch
Fields: TypeAlias = "tuple[int, bytes | None, bytes | None, Headers | None, tuple[int, int], int | None]"
# topic, partition, attempt of the first record, its fields and those of its followers
LaneFields: TypeAlias = "tuple[str, int, int, tuple[Fields, ...]]"


def lane_fields(lane: Lane, messages: Iterable[Message]) -> LaneFields:
    """Return what a child needs of a lane's records. The holder of the lane calls it."""
    topic, partition = lane.assignment.partition
    return topic, partition, lane.attempts + 1, tuple(map(_fields, messages))


def _fields(message: Message) -> Fields:
    return (
        message.offset(),
        message.key(),
        message.value(),
        take_headers(message) or None,
        message.timestamp(),
        message.leader_epoch(),
    )


class CopiedMessage:
    """A record in a worker process. Reads as confluent's `Message` does."""

    __slots__ = ("_fields", "_partition", "_topic")

    def __init__(self, topic: str, partition: int, fields: Fields) -> None:
        self._topic = topic
        self._partition = partition
        self._fields = fields

    def topic(self) -> str:
        """Return the topic's name."""
        return self._topic

    def partition(self) -> int:
        """Return the partition's number."""
        return self._partition

    def offset(self) -> int:
        """Return the position in the partition."""
        return self._fields[0]

    def key(self) -> bytes | None:
        """Return the key as produced."""
        return self._fields[1]

    def value(self) -> bytes | None:
        """Return the payload, `None` for a tombstone."""
        return self._fields[2]

    def headers(self) -> Headers | None:
        """Return the headers in order, `None` when there are none, as confluent does."""
        return self._fields[3]

    def timestamp(self) -> tuple[int, int]:
        """Return (type, milliseconds since 1970)."""
        return self._fields[4]

    def leader_epoch(self) -> int | None:
        """Return the leader epoch, `None` when unknown."""
        return self._fields[5]

    def latency(self) -> float | None:
        """Return `None`: only a delivery report has a latency."""
        return None

    def error(self) -> KafkaError | None:
        """Return `None`: this is a record."""
        return None

    def __len__(self) -> int:
        value = self._fields[2]
        return 0 if value is None else len(value)

    # `__len__` would make an empty value falsy.
    def __bool__(self) -> bool:
        return True
