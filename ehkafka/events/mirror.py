"""What becomes of the mirror: the copy of the commits outside of the broker."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ehkafka.events.event import Event

if TYPE_CHECKING:
    from ehkafka.records import TopicPartition


@dataclass(frozen=True, slots=True)
class MirrorWritten(Event):
    """These next_offsets, acknowledged by the broker before, are in the mirror."""

    level: ClassVar[int] = logging.DEBUG
    next_offsets: tuple[tuple[TopicPartition, int], ...]
    took_s: float


@dataclass(frozen=True, slots=True)
class MirrorUnavailable(Event):
    """The mirror's store does not take writes. Reported once; consumption and commits go on without it."""

    level: ClassVar[int] = logging.WARNING
    store: str
    error: str


@dataclass(frozen=True, slots=True)
class MirrorRecovered(Event):
    """The mirror's store takes writes again."""

    store: str
    outage_s: float
    failed_attempts: int


@dataclass(frozen=True, slots=True)
class MirrorContested(Event):
    """Somebody else wrote the mirror of a partition that is ours. Reported once for each owner and epoch."""

    level: ClassVar[int] = logging.WARNING
    partition: TopicPartition
    blob: str
    owner: str
    their_next_offset: int
    our_next_offset: int | None


@dataclass(frozen=True, slots=True)
class MirrorForeign(Event):
    """The blob of a partition is somebody else's, so it is neither used nor written. Once an epoch."""

    level: ClassVar[int] = logging.WARNING
    partition: TopicPartition
    blob: str
    # What was seen there.
    reason: str


@dataclass(frozen=True, slots=True)
class MirrorUsed(Event):
    """The group had no commit for a partition, so it begins where the mirror says."""

    level: ClassVar[int] = logging.WARNING
    partition: TopicPartition
    next_offset: int
    # Since 1970, by the clock of who wrote it.
    written_at_ms: int
    owner: str
    # How it was found out that the log is the same.
    proof: str


@dataclass(frozen=True, slots=True)
class MirrorBehind(Event):
    """The app stopped before the mirror had the last commits of these partitions."""

    level: ClassVar[int] = logging.WARNING
    partitions: tuple[TopicPartition, ...]
    error: str
