"""A record as it travels to a worker process: its fields as a tuple, and what reads like a `Message` there.

confluent's `Message` cannot be pickled, so the fields are copied. Pure values; a batch is a tuple of records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ehkafka.headers.taking import take_headers
from ehkafka.lanes.inbox import EPOCH, MESSAGE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from confluent_kafka import KafkaError

    from ehkafka.lanes.inbox import Entry
    from ehkafka.lanes.routing import Name, Router
    from ehkafka.records import Headers

# topic, partition, offset, key, value, headers, timestamp, leader epoch
Fields: TypeAlias = (
    "tuple[str, int, int, bytes | None, bytes | None, Headers | None, tuple[int, int], int | None]"
)
# The record, the number of its attempt, and a number that it shares with the batch's others of its key.
Copied: TypeAlias = "tuple[Fields, int, int]"


def copied(entries: Iterable[Entry], router: Router) -> tuple[Copied, ...]:
    """Return what a child needs of the records of a batch."""
    keys: dict[Name, int] = {}
    return tuple(
        (
            _fields(entry),
            router.attempt_of(entry).number if router.attempts else 1,
            keys.setdefault(router.name_of(entry), len(keys)),
        )
        for entry in entries
    )


def _fields(entry: Entry) -> Fields:
    message = entry[MESSAGE]
    # Each topic once: `marshal` knows one object by its identity.
    topic, partition = entry[EPOCH].partition
    return (
        topic,
        partition,
        message.offset(),
        message.key(),
        message.value(),
        take_headers(message) or None,
        message.timestamp(),
        message.leader_epoch(),
    )


class CopiedMessage:
    """A record in a worker process. Reads as confluent's `Message` does."""

    __slots__ = ("_fields",)

    def __init__(self, fields: Fields) -> None:
        self._fields = fields

    def topic(self) -> str:
        """Return the topic's name."""
        return self._fields[0]

    def partition(self) -> int:
        """Return the partition's number."""
        return self._fields[1]

    def offset(self) -> int:
        """Return the position in the partition."""
        return self._fields[2]

    def key(self) -> bytes | None:
        """Return the key as produced."""
        return self._fields[3]

    def value(self) -> bytes | None:
        """Return the payload, `None` for a tombstone."""
        return self._fields[4]

    def headers(self) -> Headers | None:
        """Return the headers in order, `None` when there are none, as confluent does."""
        return self._fields[5]

    def timestamp(self) -> tuple[int, int]:
        """Return (type, milliseconds since 1970)."""
        return self._fields[6]

    def leader_epoch(self) -> int | None:
        """Return the leader epoch, `None` when unknown."""
        return self._fields[7]

    def latency(self) -> float | None:
        """Return `None`: only a delivery report has a latency."""
        return None

    def error(self) -> KafkaError | None:
        """Return `None`: this is a record."""
        return None

    def __len__(self) -> int:
        value = self._fields[4]
        return 0 if value is None else len(value)

    # `__len__` would make an empty value falsy.
    def __bool__(self) -> bool:
        return True
