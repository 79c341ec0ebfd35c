"""Places in logs as values: where a range begins and where it ends, and a range of one partition. Pure.

`begin` turns places into offsets.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal, TypeAlias

from ehkafka.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

Word = Literal["earliest", "latest"]

EARLIEST = -2
LATEST = -1
"""The numbers for the log's two ends among offsets, as in the JSON of Spark's own Kafka connector."""

_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class AtWord:
    """One end of the log."""

    word: Word


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """An offset for each partition, `EARLIEST` or `LATEST` included.

    `otherwise` is for partitions that are not named; None refuses them.
    """

    offsets: tuple[tuple[TopicPartition, int], ...]
    otherwise: Word | None = None


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record of a moment or later, in milliseconds since 1970.

    One moment for all, or one for each partition. `after_last` is what becomes of a partition whose records
    are all older: `error`, or `latest`, its end.
    """

    moment_ms: int | None = None
    by_partition: tuple[tuple[TopicPartition, int], ...] = ()
    after_last: Literal["error", "latest"] = "error"


Place: TypeAlias = AtWord | AtOffsets | AtTime


@dataclass(frozen=True, slots=True)
class AtGroup:
    """What a consumer group has committed; `otherwise` where it has not, None to refuse that."""

    group: str
    otherwise: Place | None = AtWord("earliest")


Start: TypeAlias = Place | AtGroup


@dataclass(frozen=True, slots=True)
class Piece:
    """Offsets of one partition, `start` included, `end` not. Picklable; ordered by `key`."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def where(self) -> TopicPartition:
        """The partition's name."""
        return TopicPartition(self.topic, self.partition)

    @property
    def size_records(self) -> int:
        """How many offsets; the log may have fewer records."""
        return self.end - self.start


def milliseconds(moment: datetime) -> int:
    """Return the milliseconds from 1970 to an aware moment, rounded up; 0 for an earlier one."""
    return max(0, -(-(moment - _BEGIN) // timedelta(milliseconds=1)))


def pieces_between(starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> list[Piece]:
    """Return a piece for each partition that has something between the two, in order of partitions."""
    return [
        Piece(*partition, starts[partition], end)
        for partition, end in sorted(ends.items())
        if end > starts[partition]
    ]
