"""Checks one partition over all processes: outcomes, duplicates, epochs that overlap.

Pure and single-threaded; owned by a `Checker`, called through `ProcessCheck`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.kit.checker.commit_check import CommitCheck
from tests.kit.checker.offset_set import OffsetSet
from tests.kit.checker.verdict import Findings, Measure

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from ehkafka.records import TopicPartition
    from tests.kit.checker.epoch_check import EpochCheck


class PartitionCheck:
    """What is known of one partition. Memory: the holes in its offset sets and its live epochs."""

    def __init__(self, name: TopicPartition, findings: Findings) -> None:
        self.name = name
        self.findings = findings
        self.commits = CommitCheck(findings)
        self.produced = OffsetSet()
        self.received = OffsetSet()
        self.done = OffsetSet()
        # Epochs that are open, or ended and not yet followed by another, or still have records running.
        self.live: list[EpochCheck] = []
        self.epochs = 0
        self.in_flight_at_end = 0
        self.duplicates = 0
        self.duplicates_bound = 0
        # Finished twice in one epoch: nothing explains that.
        self.repeats = 0

    def assign(self, epoch: EpochCheck) -> None:
        """Begin an epoch. What the ended ones left uncommitted is fixed now: no later commit covers it."""
        self.epochs += 1
        kept = []
        for old in self.live:
            if not old.closed:
                self.in_flight_at_end += old.in_flight()
            elif not old.settled_exposure:
                old.settled_exposure = True
                self.duplicates_bound += old.exposure(self.committed)
            if not old.closed or (not old.dead and old.in_flight()):
                kept.append(old)
        self.live = [*kept, epoch]
        self.commits.assigned(epoch)

    def close(self, epoch: EpochCheck, *, dead: bool) -> None:
        """End an epoch; a second end only tells whether the process died."""
        if not epoch.closed and self.live and self.live[-1] is epoch:
            self.in_flight_at_end += epoch.in_flight()
        epoch.closed = True
        epoch.dead = epoch.dead or dead

    def revive(self, epoch: EpochCheck) -> None:
        """Watch an ended epoch again: a worker that was too late to be stopped has started a record in it."""
        if epoch not in self.live:
            self.live.insert(0, epoch)

    def duplicated(self, epoch: EpochCheck, offset: int, key: Hashable, *, again: bool) -> None:
        """Count an outcome of an offset that had one; `again`: the epoch itself had already seen it end."""
        self.duplicates += 1
        self.repeats += again and not epoch.closed
        self.findings.add(Measure.DUPLICATE, f"{epoch.where(offset, key)} finished once more")

    def judge_overlap(self, epoch: EpochCheck, offset: int, key: Hashable) -> None:
        """Report a start while another epoch runs the same key."""
        for other in self.live:
            if other is not epoch and other.holds(key, running=True):
                text = f"{epoch.where(offset, key)} started while {other.where()} was running its key"
                self.findings.add(Measure.CROSS_EPOCH, text)
                return

    def mirrored(self, next_offset: int, pid: int) -> None:
        """Judge a checkpoint of the mirror: it must never be ahead of the group's own commit."""
        if next_offset > self.commits.highest:
            text = f"{self.name}: pid {pid} mirrored next_offset {next_offset}, which no commit had reached"
            self.findings.add(Measure.MIRROR_AHEAD, text)

    @property
    def committed(self) -> int:
        """The next_offset that the group has, 0 before the first commit."""
        return self.commits.final or 0

    def bound_now(self) -> int:
        """Return the bound of duplicates if no event followed: epochs that are open may still end."""
        ended = (epoch for epoch in self.live if not epoch.settled_exposure)
        latest = self.live[-1] if self.live else None
        return self.duplicates_bound + sum(
            epoch.exposure(self.committed) for epoch in ended if epoch.closed or epoch is not latest
        )

    def lost(self) -> Iterator[int]:
        """Yield the offsets below the final commit that were owed an outcome and have none."""
        owed = OffsetSet()
        for start, end in [*self.received.ranges(), *self.produced.ranges()]:
            owed.add_range(start, end)
        for start, end in owed.missing_in(self.done):
            yield from range(start, min(end, self.committed))

    def unseen(self) -> Iterator[int]:
        """Yield the offsets that were produced and have no outcome."""
        for start, end in self.produced.missing_in(self.done):
            yield from range(start, end)
