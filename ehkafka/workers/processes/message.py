"""A record as it travels to a worker process: its fields as a tuple, and what reads like a `Message` there.

confluent's `Message` cannot be pickled, so the fields are copied. Pure values; a batch is a tuple of records.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, TypeAlias

from ehkafka.headers.taking import take_headers
from ehkafka.lanes.inbox import EPOCH, KEY, MESSAGE
from ehkafka.lanes.order import KeyFailure

if TYPE_CHECKING:
    from collections.abc import Iterable

    from confluent_kafka import KafkaError

    from ehkafka.lanes.inbox import Entry
    from ehkafka.lanes.routing import Name, Router
    from ehkafka.records import Headers

# topic, partition, offset, key, value, headers, timestamp, leader epoch, the number of the attempt, and a
# number that the record shares with the batch's others of its key. An attempt of number 0 is not to be run:
# the record's key could not be computed.
Copied: TypeAlias = (
    "tuple[str, int, int, bytes | None, bytes | None, Headers | None, tuple[int, int], int | None, int, int]"
)


def has_key_failure(entries: Iterable[Entry]) -> bool:
    """Tell whether the key of any of these records could not be computed."""
    return KeyFailure in set(map(type, map(itemgetter(KEY), entries)))


def copied(entries: Iterable[Entry], router: Router) -> tuple[Copied, ...]:
    """Return what a child needs of the records of a batch."""
    keys: dict[Name, int] = {}
    attempts, records = router.attempts, []
    for entry in entries:
        message = entry[MESSAGE]
        # Each topic once: `marshal` knows one object by its identity.
        topic, partition = entry[EPOCH].partition
        number = 1
        if isinstance(entry[KEY], KeyFailure):
            number = 0
        elif attempts and (known := attempts.get(id(message))) is not None:
            number = known.failed + 1
        records.append(
            (
                topic,
                partition,
                message.offset(),
                message.key(),
                message.value(),
                take_headers(message) or None,
                message.timestamp(),
                message.leader_epoch(),
                number,
                keys.setdefault(router.name_of(entry), len(keys)),
            )
        )
    return tuple(records)


class CopiedMessage:
    """A record in a worker process. Reads as confluent's `Message` does."""

    __slots__ = ("_fields",)

    def __init__(self, fields: Copied) -> None:
        self._fields = fields

    def topic(self) -> str:
        return self._fields[0]

    def partition(self) -> int:
        return self._fields[1]

    def offset(self) -> int:
        return self._fields[2]

    def key(self) -> bytes | None:
        return self._fields[3]

    def value(self) -> bytes | None:
        return self._fields[4]

    def headers(self) -> Headers | None:
        return self._fields[5]

    def timestamp(self) -> tuple[int, int]:
        return self._fields[6]

    def leader_epoch(self) -> int | None:
        return self._fields[7]

    def latency(self) -> float | None:
        return None  # only a delivery report has one

    def error(self) -> KafkaError | None:
        return None

    def __len__(self) -> int:
        return len(self._fields[4] or b"")

    # `__len__` would make an empty value falsy.
    def __bool__(self) -> bool:
        return True
