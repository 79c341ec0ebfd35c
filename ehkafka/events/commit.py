"""What becomes of commits."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ehkafka.events.event import Event

if TYPE_CHECKING:
    from ehkafka.records import TopicPartition


@dataclass(frozen=True, slots=True)
class CommitAcknowledged(Event):
    """The broker stored these next_offsets."""

    level: ClassVar[int] = logging.DEBUG
    next_offsets: tuple[tuple[TopicPartition, int], ...]
    took_s: float


@dataclass(frozen=True, slots=True)
class CommitFailed(Event):
    """A commit was refused; the partitions stay dirty unless they were lost."""

    level: ClassVar[int] = logging.WARNING
    partitions: tuple[TopicPartition, ...]
    error: str
    retriable: bool


@dataclass(frozen=True, slots=True)
class CommitPaceBounded(Event):
    """The settings ask for commits closer together than the service takes; logged once, at the start."""

    level: ClassVar[int] = logging.WARNING
    interval_s: float
    every_records: int | None
    spacing_s: float


@dataclass(frozen=True, slots=True)
class ProgressTruncated(Event):
    """What is finished above a commit does not fit into its metadata; reported once until it fits again.

    After a crash the offsets dropped are handled again, should they still be above the commit.
    """

    level: ClassVar[int] = logging.WARNING
    partition: TopicPartition
    kept_offsets: int
    dropped_offsets: int
    bytes_max: int


@dataclass(frozen=True, slots=True)
class ProgressRestored(Event):
    """An epoch begins with offsets above the group's commit that an earlier one finished.

    Their records are received and not handled again. `source` says where that was found.
    """

    partition: TopicPartition
    epoch: int
    next_offset: int
    finished_offsets: int
    ranges: int
    source: str


@dataclass(frozen=True, slots=True)
class ProgressIgnored(Event):
    """What is said to be finished above a commit is not believed, so those records are handled again."""

    level: ClassVar[int] = logging.WARNING
    partition: TopicPartition
    next_offset: int
    reason: str
    source: str
