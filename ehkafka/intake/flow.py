"""Flow control: how much to take from the broker, which partitions to pause and to resume.

Pure; called by the poll thread alone. The backlog (received, no outcome, not parked) is bounded in
records and in bytes, in total and per partition; so is what is parked beside it. A lane that is parked
takes its records out of the backlog and brings them back: each amount may pass its own limit by that, the
sum of both never passes the sum of the limits. A pause throws away what librdkafka had fetched ahead, so
a partition is paused at its share and resumed only at half of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ehkafka.lanes.assignment import Assignment
    from ehkafka.lanes.lane import Lane
    from ehkafka.records import TopicPartition

# Taken for the size of the next record before any was seen: the largest that Event Hubs' standard tiers
# accept (1 MB), so that the first batches cannot overrun the byte limit.
LARGEST_RECORD_GUESS_BYTES = 1_048_576
# Batches that one large record is remembered for.
LARGEST_MEMORY_BATCHES = 32


class Load(Protocol):
    """What flow control reads of a partition's assignment."""

    partition: TopicPartition
    backlog_records: int
    backlog_bytes: int
    parked_records: int
    parked_bytes: int


L = TypeVar("L", bound=Load)


@dataclass(slots=True)
class FlowLimits:
    """Bounds of the backlog and of the parked budget.

    A partition's share is its part of the total, but at least two batches.
    """

    # A fifth of it costs a third of the speed: each pause throws away what librdkafka has fetched ahead.
    backlog_records_max: int = 50_000
    backlog_bytes_max: int = 128 * 1024 * 1024
    consume_records_max: int = 1_000
    parked_records_max: int = 100_000
    parked_bytes_max: int = 128 * 1024 * 1024


@dataclass(slots=True)
class FlowControl:
    """Decides; the poll thread pauses, resumes and consumes."""

    limits: FlowLimits
    paused: set[TopicPartition] = field(default_factory=set)
    # Those of them whose share of the parked budget was full: only these wait for it to be half empty.
    parked_full: set[TopicPartition] = field(default_factory=set)
    # The whole backlog reached a limit: everything is paused until it is half empty.
    full: bool = False
    _largest_bytes: int = LARGEST_RECORD_GUESS_BYTES
    _largest_age_batches: int = 0

    def batch_size(
        self, backlog_records: int, backlog_bytes: int, parked_records: int = 0, parked_bytes: int = 0
    ) -> int:
        """Return how many records may be taken now without passing a limit; 0: none."""
        records, size = self._room(backlog_records, backlog_bytes, parked_records, parked_bytes)
        by_bytes = size // self._largest_bytes
        if backlog_records + parked_records == 0:
            by_bytes = max(by_bytes, 1)  # a record larger than the limit must still get through, alone
        return max(0, min(self.limits.consume_records_max, records, by_bytes))

    def _room(
        self, backlog_records: int, backlog_bytes: int, parked_records: int, parked_bytes: int
    ) -> tuple[int, int]:
        """Return how many records and bytes the backlog, and backlog and parked together, leave."""
        limits = self.limits
        # What is parked beyond its budget came out of the backlog and is taken from it.
        beyond_records = max(0, parked_records - limits.parked_records_max)
        beyond_bytes = max(0, parked_bytes - limits.parked_bytes_max)
        records = limits.backlog_records_max - backlog_records - beyond_records
        return records, limits.backlog_bytes_max - backlog_bytes - beyond_bytes

    def note_batch(self, largest_bytes: int) -> None:
        """Remember the largest record of a batch for a while: the next one may hold more of its kind."""
        self._largest_age_batches += 1
        if largest_bytes >= self._largest_bytes or self._largest_age_batches >= LARGEST_MEMORY_BATCHES:
            self._largest_bytes = max(1, largest_bytes)
            self._largest_age_batches = 0

    def to_pause(self, received: Iterable[Load], partitions: int) -> list[TopicPartition]:
        """Return which of the partitions just received from are over their share of the backlog."""
        records, size = self.share(partitions)
        over = [
            load.partition
            for load in received
            if (load.backlog_records >= records or load.backlog_bytes >= size)
            and load.partition not in self.paused
        ]
        self.paused.update(over)
        return over

    def over_parked_share(self, loads: Iterable[L], partitions: int) -> list[L]:
        """Return the partitions whose parked records have filled their share of the parked budget."""
        records, size = self.parked_share(partitions)
        return [load for load in loads if load.parked_records >= records or load.parked_bytes >= size]

    def to_pause_parked(self, loads: Iterable[Load], partitions: int) -> list[TopicPartition]:
        """Return which partitions to pause because their share of the parked budget is full."""
        over = [load.partition for load in self.over_parked_share(loads, partitions)]
        new = [partition for partition in over if partition not in self.paused]
        self.parked_full.update(over)
        self.paused.update(new)
        return new

    def to_pause_all(self, loads: Iterable[Load]) -> list[TopicPartition]:
        """Return what is left to pause because the whole backlog is full."""
        self.full = True
        rest = [load.partition for load in loads if load.partition not in self.paused]
        self.paused.update(rest)
        return rest

    def to_resume(
        self,
        loads: Iterable[Load],
        backlog_records: int,
        backlog_bytes: int,
        parked_records: int = 0,
        parked_bytes: int = 0,
    ) -> list[TopicPartition]:
        """Return which paused partitions may go on: below half their shares, and the whole not full."""
        if self.full and not self._half_empty(backlog_records, backlog_bytes, parked_records, parked_bytes):
            return []
        self.full = False
        loads = list(loads)
        records, size = self.share(len(loads))
        parked, parked_size = self.parked_share(len(loads))
        under = [
            load.partition
            for load in loads
            if load.partition in self.paused
            and load.backlog_records <= records // 2
            # What is left of no records is no load, see `Dispatcher.receive`.
            and (load.backlog_bytes <= size // 2 or not load.backlog_records)
            and (
                load.partition not in self.parked_full
                or (
                    # Backlog and all: a lane whose head is being retried is parked no longer, and would
                    # let the partition go on for the length of each attempt.
                    load.backlog_records + load.parked_records <= parked // 2
                    and load.backlog_bytes + load.parked_bytes <= parked_size // 2
                )
            )
        ]
        self.paused.difference_update(under)
        self.parked_full.difference_update(under)
        return under

    def _half_empty(self, backlog_records: int, backlog_bytes: int, *parked: int) -> bool:
        """Tell whether the backlog fell to half, with room for a batch or two beside what is parked."""
        limits = self.limits
        if not backlog_records:
            backlog_bytes = 0
        records, size = self._room(backlog_records, backlog_bytes, *parked)
        return (
            backlog_records <= limits.backlog_records_max // 2
            and backlog_bytes <= limits.backlog_bytes_max // 2
            and records >= min(2 * limits.consume_records_max, limits.backlog_records_max // 2)
            and size >= min(2 * self._largest_bytes, limits.backlog_bytes_max // 2)
        )

    def share(self, partitions: int) -> tuple[int, int]:
        """Return one partition's bounds in records and bytes. A share near one batch would pause always."""
        limits = self.limits
        parts = max(1, partitions)
        records = max(limits.backlog_records_max // parts, 2 * limits.consume_records_max)
        return min(records, limits.backlog_records_max), max(1, limits.backlog_bytes_max // parts)

    def parked_share(self, partitions: int) -> tuple[int, int]:
        """Return one partition's bounds of what is parked, in records and bytes."""
        limits = self.limits
        parts = max(1, partitions)
        records = max(limits.parked_records_max // parts, 2 * limits.consume_records_max)
        return min(records, limits.parked_records_max), max(1, limits.parked_bytes_max // parts)

    def forget(self, partition: TopicPartition) -> None:
        """Drop a partition that was revoked or lost: a later assignment starts unpaused."""
        self.paused.discard(partition)
        self.parked_full.discard(partition)


def largest_lane(assignment: Assignment) -> Lane | None:
    """Return the longest lane if it holds half of what is unfinished. Caller has the lock."""
    longest = max(assignment.lanes.values(), key=len, default=None)
    if longest is None or 2 * len(longest) < assignment.unfinished_records:
        return None
    return longest
