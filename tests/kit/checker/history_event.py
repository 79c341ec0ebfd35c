"""The events of a history: what happened in one process, as values.

Written by histories, judged by `Checker.observe`. An event says nothing about
right or wrong. `run` names one start of one process (a pid can come back), `at_ns` is
`time.monotonic_ns()`, which every process of one Linux machine shares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from ehkafka.records import TopicPartition


@dataclass(frozen=True, slots=True)
class HistoryEvent:
    """What every event carries: when, and in which process."""

    at_ns: int
    pid: int
    run: str


@dataclass(frozen=True, slots=True)
class Produced(HistoryEvent):
    """The broker acknowledged records at these offsets: from now on each is owed an outcome."""

    partition: TopicPartition
    offsets: Sequence[int]


@dataclass(frozen=True, slots=True)
class Assigned(HistoryEvent):
    """An epoch began; `position` is the offset, or the start position in words."""

    partition: TopicPartition
    epoch: int
    position: str


@dataclass(frozen=True, slots=True)
class Revoked(HistoryEvent):
    """An epoch ended; reason: `revoked`, `lost` or `stopped`."""

    partition: TopicPartition
    epoch: int
    reason: str


@dataclass(frozen=True, slots=True)
class Received(HistoryEvent):
    """These offsets, ascending, were handed to the dispatcher."""

    partition: TopicPartition
    epoch: int
    offsets: Sequence[int]


@dataclass(frozen=True, slots=True)
class Jumped(HistoryEvent):
    """The log does not hold what comes next; the epoch goes on at `next_offset`, further on."""

    partition: TopicPartition
    epoch: int
    next_offset: int


@dataclass(frozen=True, slots=True)
class Started(HistoryEvent):
    """An attempt began on this worker."""

    partition: TopicPartition
    epoch: int
    offset: int
    key: Hashable
    attempt: int
    worker: str = ""


@dataclass(frozen=True, slots=True)
class Finished(HistoryEvent):
    """An attempt ended: an `Outcome`'s value, or `failed` when it raised."""

    partition: TopicPartition
    epoch: int
    offset: int
    key: Hashable
    attempt: int
    outcome: str
    worker: str = ""


@dataclass(frozen=True, slots=True)
class DeadLettered(HistoryEvent):
    """The dead-letter topic acknowledged a copy. The outcome itself is reported by `Finished`."""

    partition: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True)
class CommitRequested(HistoryEvent):
    """A commit of these next_offsets is about to be sent."""

    next_offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class CommitAcknowledged(HistoryEvent):
    """The broker stored these next_offsets."""

    next_offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class CommitFailed(HistoryEvent):
    """The broker refused, or the answer never came."""

    next_offsets: Mapping[TopicPartition, int]
    error: str


@dataclass(frozen=True, slots=True)
class Mirrored(HistoryEvent):
    """The blob mirror stored these next_offsets."""

    next_offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class ProcessStarted(HistoryEvent):
    """A process began to write its history."""


@dataclass(frozen=True, slots=True)
class ProcessStopped(HistoryEvent):
    """A process closed its history by itself."""


@dataclass(frozen=True, slots=True)
class ProcessKilled(HistoryEvent):
    """Another process saw the process `killed_pid` dead; `pid` and `run` are the witness's."""

    killed_pid: int


@dataclass(frozen=True, slots=True)
class TornLine(HistoryEvent):
    """The reader met a line that a dying process did not finish writing; nothing of it is known."""

    path: str
    line: int
