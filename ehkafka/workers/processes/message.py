"""A record as it travels to a worker process: its fields as a tuple, and what reads like a `Message` there.

confluent's `Message` cannot be pickled, so the fields are copied. Pure values; a batch is a tuple of records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ehkafka.headers.taking import take_headers
from ehkafka.lanes.inbox import EPOCH, KEY, MESSAGE
from ehkafka.lanes.order import KeyFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from confluent_kafka import KafkaError

    from ehkafka.lanes.decision import Attempts
    from ehkafka.lanes.inbox import Entry
    from ehkafka.records import Headers

# topic, partition, offset, key, value, headers, timestamp, leader epoch, and the number of the attempt. An
# attempt of number 0 is not to be run: the record's key could not be computed.
Copied: TypeAlias = (
    "tuple[str, int, int, bytes | None, bytes | None, Headers | None, tuple[int, int], int | None, int]"
)


def copied(entries: Iterable[Entry], attempts: Mapping[int, Attempts]) -> tuple[Copied, ...]:
    """Return what a child needs of the records of a batch; `attempts` are those that were made before."""
    records = []
    for entry in entries:
        message = entry[MESSAGE]
        # Each topic once: `marshal` knows one object by its identity.
        topic, partition = entry[EPOCH].partition
        number = 1
        if type(entry[KEY]) is KeyFailure:
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
            )
        )
    return tuple(records)


def _reader(place: int) -> Callable[[CopiedMessage], object]:
    """Return a method that reads one field."""
    return lambda message: message._fields[place]


class CopiedMessage:
    """A record in a worker process. Reads as confluent's `Message` does."""

    __slots__ = ("_fields",)

    def __init__(self, fields: Copied) -> None:
        self._fields = fields

    topic, partition, offset, key, value, headers, timestamp, leader_epoch = map(_reader, range(8))

    def latency(self) -> float | None:
        return None  # only a delivery report has one

    def error(self) -> KafkaError | None:
        return None

    def __len__(self) -> int:
        return len(self._fields[4] or b"")

    # `__len__` would make an empty value falsy.
    def __bool__(self) -> bool:
        return True
