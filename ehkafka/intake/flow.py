"""Flow control: how much to take from the broker, which partitions to pause and to resume.

Pure; called by the poll thread alone. The backlog (received, no outcome, not parked) is bounded in
records and in bytes; so is what is parked as well. A key that is parked takes its records out of the
backlog and brings them back: each amount may pass its own limit by that, the sum of both never passes the
sum of the limits.

A pause throws away what librdkafka had fetched of a partition, to be fetched and paid for again. So while
the handlers have enough to do, no partition is paused: records are *withheld*, the client is asked for none.
Once the backlog is half full and handlers lack work, each partition is paused that holds more than its part
of the free half behind records that wait for others, but only if a partition that holds less gains.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Final, NamedTuple

from ehkafka.lanes.inbox import KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.inbox import Entry
    from ehkafka.lanes.tally import Tally
    from ehkafka.records import TopicPartition
    from ehkafka.settings import Settings

# Taken for the size of the next record before any was seen: the largest that Event Hubs' standard tiers
# accept (1 MB), so that the first batches cannot overrun the byte limit.
LARGEST_RECORD_GUESS_BYTES = 1_048_576
# Batches that one large record is remembered for.
LARGEST_MEMORY_BATCHES = 32
# One batch takes so much of what is free: a block of one partition must not fill the backlog before it is
# seen to be stuck.
_BATCH_PARTS: Final = 4
# Where that is the part of one among many partitions, so much may be taken all the same.
_BATCH_RECORDS_MIN: Final = 50
# A paused partition goes on when it holds such a part of what it held.
_RESUME_PARTS: Final = 4
# Who holds no more than so many times what it will end within a second needs no more now.
_ENOUGH_TIMES: Final = 8
# Nothing goes on before such a part of the backlog is free.
_FREE_PARTS: Final = 16
# Also resume a partition that holds such a part of its share while so many times as much is free: its other
# keys may run. Back off: 1 s, doubled up to 60 s each time it is stuck again.
_SMALL_PARTS, _FREE_TIMES = 4, 8
_AGAIN_S, _AGAIN_S_MAX = 1.0, 60.0


class Stuck(NamedTuple):
    """How many records of a partition will not end soon."""

    epoch: Epoch
    records: int


@dataclass(slots=True)
class FlowLimits:
    """Bounds of the backlog and of the parked budget: settings of these names."""

    backlog_records_max: int = 50_000
    backlog_bytes_max: int = 128 * 1024 * 1024
    consume_records_max: int = 1_000
    parked_records_max: int = 100_000
    parked_bytes_max: int = 128 * 1024 * 1024

    @classmethod
    def of(cls, settings: Settings) -> FlowLimits:
        """Return an app's."""
        return cls(*(getattr(settings, one.name) for one in fields(cls)))


@dataclass(slots=True)
class _Pause:
    """A partition that is paused because it is stuck."""

    records: int
    size: int
    # When it may go on though it is as stuck as it was.
    again_s: float
    # All were paused: it goes on when the whole is half empty, too. A program may keep that much until later
    # records come.
    was_full: bool


@dataclass(slots=True)
class FlowControl:
    """Decides; the poll thread pauses, resumes and consumes."""

    limits: FlowLimits
    paused: set[TopicPartition] = field(default_factory=set)
    # Those of them whose share of the parked budget was full: only these wait for it to be half empty.
    parked_full: set[TopicPartition] = field(default_factory=set)
    # Those that a command has paused: only `resume_by_hand` lets them go on.
    by_hand: set[TopicPartition] = field(default_factory=set)
    # Some turn took nothing though there may have been something. The slow watch, which takes silence for a
    # standstill otherwise, clears it.
    has_withheld: bool = False
    # Those of them that were stuck, or all when the backlog became full. A wait is remembered after the
    # resume, until the partition moves.
    _stuck: dict[TopicPartition, _Pause] = field(default_factory=dict)
    _waits: dict[TopicPartition, float] = field(default_factory=dict)
    _largest_bytes: int = LARGEST_RECORD_GUESS_BYTES
    _largest_age_batches: int = 0

    def room(self, amounts: Tally) -> int:
        """Return how many records may be taken at a time without passing a limit; 0: none."""
        records, size = self._free(amounts)
        by_bytes = size // self._largest_bytes
        # A record larger than the limit must still get through, alone; whatever is on hold within its budget.
        if amounts.backlog_records == 0 and amounts.parked_bytes <= self.limits.parked_bytes_max:
            by_bytes = max(by_bytes, 1)
        return max(0, min(self.limits.consume_records_max, records, by_bytes))

    def batch_size(self, amounts: Tally, partitions: int = _BATCH_PARTS) -> int:
        """Return how many records to take now: no more than a part of what is free, but one where it fits.

        `partitions` may be stuck: then the part of one of them, before it is looked at again.
        """
        records, size = self._free(amounts)
        fit = min(records, size // self._largest_bytes)
        part = min(fit // _BATCH_PARTS, max(_BATCH_RECORDS_MIN, fit // max(1, partitions)))
        return min(self.room(amounts), max(1, part))

    def is_half_full(self, amounts: Tally) -> bool:
        """Tell whether less than half of the backlog is free: what is stuck is to be looked for."""
        records, size = self._free(amounts)
        limits = self.limits
        return records <= limits.backlog_records_max // 2 or size <= limits.backlog_bytes_max // 2

    def _free(self, amounts: Tally) -> tuple[int, int]:
        """Return how many records and bytes the backlog, and backlog and parked together, leave."""
        limits = self.limits
        # What is parked beyond its budget came out of the backlog and is taken from it.
        beyond_records = max(0, amounts.parked_records - limits.parked_records_max)
        beyond_bytes = max(0, amounts.parked_bytes - limits.parked_bytes_max)
        records = limits.backlog_records_max - amounts.backlog_records - beyond_records
        return records, limits.backlog_bytes_max - amounts.backlog_bytes - beyond_bytes

    def note_batch(self, largest_bytes: int) -> None:
        """Remember the largest record of a batch for a while: the next one may hold more of its kind."""
        self._largest_age_batches += 1
        if largest_bytes >= self._largest_bytes or self._largest_age_batches >= LARGEST_MEMORY_BATCHES:
            self._largest_bytes = max(1, largest_bytes)
            self._largest_age_batches = 0

    def to_pause(
        self,
        stuck: Iterable[Stuck],
        amounts: Tally,
        now_s: float,
        has_unread: Callable[[TopicPartition], bool] = lambda _partition: True,
    ) -> list[TopicPartition] | None:
        """Return which stuck partitions to pause, so that others get what is left; None: take nothing.

        `stuck` are all partitions that are ours, the paused ones too. Asked when the backlog is half full.
        """
        # A partition that has nothing and gets nothing needs no part.
        awake = [one for one in stuck if one.epoch.tally.backlog_records or has_unread(one.epoch.partition)]
        going = [one for one in awake if one.epoch.partition not in self.paused]
        records, size = self._free(amounts)
        parts = max(1, 2 * len(going))
        over = [one for one in going if _is_over(one, records // parts, size // parts)]
        others = (one for one in going if one not in over)
        gains = any(has_unread(one.epoch.partition) and not _has_enough(one) for one in others)
        if not going or (over and not gains):
            return None
        for one in over:
            self._pause_stuck(one.epoch, now_s)
        return [one.epoch.partition for one in over]

    def _pause_stuck(self, epoch: Epoch, now_s: float, *, was_full: bool = False) -> None:
        wait_s = min(_AGAIN_S_MAX, 2 * self._waits.get(epoch.partition, _AGAIN_S / 2))
        self._waits[epoch.partition] = wait_s
        pause = _Pause(epoch.tally.backlog_records, epoch.tally.backlog_bytes, now_s + wait_s, was_full)
        self._stuck[epoch.partition] = pause
        self.paused.add(epoch.partition)

    def over_parked_share(self, epochs: Iterable[Epoch], partitions: int) -> list[Epoch]:
        """Return the partitions whose parked records have filled their share of the parked budget."""
        records, size = self.parked_share(partitions)
        return [
            epoch
            for epoch in epochs
            if epoch.tally.parked_records >= records or epoch.tally.parked_bytes >= size
        ]

    def to_pause_parked(self, epochs: Iterable[Epoch], partitions: int) -> list[TopicPartition]:
        """Return which partitions to pause because their share of the parked budget is full."""
        over = [epoch.partition for epoch in self.over_parked_share(epochs, partitions)]
        new = [partition for partition in over if partition not in self.paused]
        self.parked_full.update(over)
        self.paused.update(new)
        return new

    def to_pause_all(self, epochs: Iterable[Epoch], now_s: float) -> list[TopicPartition]:
        """Return what is left to pause because the whole backlog is full."""
        rest = [epoch for epoch in epochs if epoch.partition not in self.paused]
        for epoch in rest:
            self._pause_stuck(epoch, now_s, was_full=True)
        return [epoch.partition for epoch in rest]

    def to_resume(self, epochs: Iterable[Epoch], amounts: Tally, now_s: float) -> list[TopicPartition]:
        """Return which paused partitions may go on: they have moved, or there is much room again."""
        epochs = list(epochs)
        if not self._is_worth_a_fetch(amounts):
            return []
        room, parked = self._room_for_stuck(amounts, len(epochs)), self.parked_share(len(epochs))
        going = [
            epoch.partition
            for epoch in epochs
            if epoch.partition in self.paused
            and epoch.partition not in self.by_hand
            and self._may_go_on(epoch, room, now_s, amounts)
            and (epoch.partition not in self.parked_full or _is_half_parked(epoch, *parked))
        ]
        self.paused.difference_update(going)
        self.parked_full.difference_update(going)
        for partition in going:
            self._stuck.pop(partition, None)
        return going

    def _is_worth_a_fetch(self, amounts: Tally) -> bool:
        """Tell whether so much of the backlog is free that what is fetched is not soon thrown away again."""
        limits, (records, size) = self.limits, self._free(amounts)
        return records >= max(1, limits.backlog_records_max // _FREE_PARTS) and size >= min(
            2 * self._largest_bytes, limits.backlog_bytes_max // 2
        )

    def _may_go_on(self, epoch: Epoch, room: tuple[int, int], now_s: float, amounts: Tally) -> bool:
        tally, pause = epoch.tally, self._stuck.get(epoch.partition)
        if pause is None:
            return True
        # What is left of no records is no load.
        size = tally.backlog_bytes if tally.backlog_records else 0
        if tally.backlog_records <= pause.records // _RESUME_PARTS and size <= pause.size // _RESUME_PARTS:
            self._waits.pop(epoch.partition, None)
            return True
        records, free_size = self._free(amounts)
        if pause.was_full and records >= amounts.backlog_records and free_size >= amounts.backlog_bytes:
            return True
        return tally.backlog_records <= room[0] and tally.backlog_bytes <= room[1] and now_s >= pause.again_s

    def _room_for_stuck(self, amounts: Tally, partitions: int) -> tuple[int, int]:
        """Return how much a stuck partition may hold to go on all the same."""
        limits, free = self.limits, self._free(amounts)
        parts = _SMALL_PARTS * max(1, partitions)
        return (
            min(limits.backlog_records_max // parts, free[0] // _FREE_TIMES),
            min(limits.backlog_bytes_max // parts, free[1] // _FREE_TIMES),
        )

    def parked_share(self, partitions: int) -> tuple[int, int]:
        """Return one partition's bounds of what is parked, in records and bytes."""
        limits = self.limits
        parts = max(1, partitions)
        records = max(limits.parked_records_max // parts, 2 * limits.consume_records_max)
        return min(records, limits.parked_records_max), max(1, limits.parked_bytes_max // parts)

    def pause_by_hand(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Keep partitions paused until `resume_by_hand`; return which are to pause now."""
        new = [partition for partition in partitions if partition not in self.by_hand]
        self.by_hand.update(new)
        going = [partition for partition in new if partition not in self.paused]
        self.paused.update(going)
        return going

    def resume_by_hand(self, partitions: Iterable[TopicPartition]) -> None:
        """Let partitions go on as far as flow control lets them, which the next look tells."""
        self.by_hand.difference_update(partitions)

    def forget(self, partition: TopicPartition) -> None:
        """Drop a partition that was revoked or lost: a later epoch starts unpaused."""
        self.by_hand.discard(partition)
        self.paused.discard(partition)
        self.parked_full.discard(partition)
        self._stuck.pop(partition, None)
        self._waits.pop(partition, None)


def _has_enough(stuck: Stuck) -> bool:
    """Tell whether a partition's records end, and it holds more of them than will end within a second.

    Not for many seconds: then that is a slow key's, behind which others may have nothing.
    """
    held = stuck.epoch.tally.backlog_records
    return stuck.records > 0 and held < _ENOUGH_TIMES * (held - stuck.records)


def _is_over(stuck: Stuck, records: int, size: int) -> bool:
    """Tell whether more than so many records and bytes of a partition are stuck."""
    epoch = stuck.epoch
    return stuck.records > records or epoch.tally.backlog_bytes * stuck.records > size * max(
        1, epoch.tally.backlog_records
    )


def _is_half_parked(epoch: Epoch, parked_records: int, parked_bytes: int) -> bool:
    """Tell whether a partition that had filled its parked share is below half of it.

    Backlog and all: a key whose record is being retried is parked no longer, and would let the partition go
    on for the length of each attempt.
    """
    return (
        epoch.tally.backlog_records + epoch.tally.parked_records <= parked_records // 2
        and epoch.tally.backlog_bytes + epoch.tally.parked_bytes <= parked_bytes // 2
    )


def largest_key(entries: Sequence[Entry]) -> Entry | None:
    """Return a record of the key that has most of these if that is half of them, else None. O(records)."""
    for key, records in Counter(entry[KEY] for entry in entries).most_common(1):
        if 2 * records >= len(entries):
            return next(entry for entry in entries if entry[KEY] == key)
    return None
