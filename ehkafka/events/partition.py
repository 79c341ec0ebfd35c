"""What happens to a partition: its epochs, its pauses, and gaps in its log."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ehkafka.events.event import Event

if TYPE_CHECKING:
    from ehkafka.records import TopicPartition


@dataclass(frozen=True, slots=True)
class PartitionAssigned(Event):
    """A new epoch of a partition began. `position` is an offset or a start position in words.

    `is_new`: the topic has got the partition since the group began, so it begins with its log, whatever
    `start` says.
    """

    partition: TopicPartition
    epoch: int
    position: str
    is_new: bool = False


@dataclass(frozen=True, slots=True)
class PartitionRevoked(Event):
    """An epoch ended with a drain. `next_offset` is what was committed last, `None` if nothing was."""

    partition: TopicPartition
    epoch: int
    next_offset: int | None
    returned_records: int
    reason: str


@dataclass(frozen=True, slots=True)
class PartitionLost(Event):
    """An epoch ended without our consent; nothing was committed, another member may own it already."""

    level: ClassVar[int] = logging.WARNING
    partition: TopicPartition
    epoch: int
    returned_records: int


@dataclass(frozen=True, slots=True)
class PartitionPaused(Event):
    """Fetching of a partition was paused because its backlog is over its share."""

    level: ClassVar[int] = logging.DEBUG
    partition: TopicPartition
    backlog_records: int
    backlog_bytes: int
    # The key with the longest lane, when one key holds most of the backlog.
    largest_key: str | None


@dataclass(frozen=True, slots=True)
class PartitionResumed(Event):
    """Fetching of a partition goes on: its backlog fell below the low mark."""

    level: ClassVar[int] = logging.DEBUG
    partition: TopicPartition
    paused_s: float


@dataclass(frozen=True, slots=True)
class ParkedBudgetFull(Event):
    """A partition's share of the parked budget is full. `action` is what was declared for it."""

    level: ClassVar[int] = logging.WARNING
    partition: TopicPartition
    parked_records: int
    parked_bytes: int
    # The parked key with the most records.
    largest_key: str
    action: str


@dataclass(frozen=True, slots=True)
class OffsetGap(Event):
    """The log no longer holds, or does not hold yet, the offset that was to be read next.

    `log_start` and `log_end` are what the log holds now; a wanted offset above the end means that the log
    was cut or made anew. `lost_records` counts the offsets that are never read, those that `latest` skips
    included (holes of compaction and transactions count as well). `action` is the policy
    `on_out_of_range`; `resumed_at` is None when it stops the app.
    """

    level: ClassVar[int] = logging.ERROR
    partition: TopicPartition
    wanted_offset: int
    log_start: int
    log_end: int
    lost_records: int
    action: str
    resumed_at: int | None


@dataclass(frozen=True, slots=True)
class LogReplaced(Event):
    """A partition's log is another one than its position belongs to: its topic was made anew.

    `reason` says what tells them apart: the topic's id, or the timestamp of a record. `next_offset` is the
    position of the old log, which lies inside of the new one by chance: it does not decide, the policy
    `on_out_of_range` does, named by `action`. `lost_records` counts what is never read of the new log, as
    with `latest`; `resumed_at` is None when the policy stops the app. `option` names the policy: of a drop-in
    it is `auto.offset.reset`, and `action` is `none` where its position stays.
    """

    level: ClassVar[int] = logging.ERROR
    partition: TopicPartition
    next_offset: int
    reason: str
    log_start: int
    log_end: int
    lost_records: int
    action: str
    resumed_at: int | None
    option: str = "on_out_of_range"
