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
    """The settings ask for commits closer together than the service takes; told once, at the start."""

    level: ClassVar[int] = logging.WARNING
    interval_s: float
    every_records: int | None
    spacing_s: float
