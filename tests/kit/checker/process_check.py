"""Checks one process: a `History` that judges instead of storing.

Single-threaded: `Checker.observe` calls it event by event, `CheckingHistory` under its lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.kit.checker.epoch_check import EpochCheck
from tests.kit.checker.verdict import Measure

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from ehkafka.records import TopicPartition
    from tests.kit.checker.checker import Checker


class ProcessCheck:
    """Finds the epoch that a call is about and hands it on."""

    def __init__(self, checker: Checker, run: str, pid: int) -> None:
        self._checker = checker
        self.run = run
        self.pid = pid
        self._current: dict[TopicPartition, EpochCheck] = {}
        # Ended epochs that still have records running: their ends are expected.
        self._ended: dict[tuple[TopicPartition, int], EpochCheck] = {}

    def assigned(self, partition: TopicPartition, epoch: int, position: str) -> None:
        """Begin an epoch."""
        old = self._current.get(partition)
        if old is not None:
            self._set_aside(old)
        self._current[partition] = fresh = self._new_epoch(partition, epoch, position)
        fresh.partition.assign(fresh)

    def revoked(self, partition: TopicPartition, epoch: int, _reason: str) -> None:
        """End an epoch; its records in flight may still end."""
        found = self._find(partition, epoch)
        found.partition.close(found, dead=False)

    def received(self, partition: TopicPartition, epoch: int, offsets: Sequence[int]) -> None:
        """Note records as unfinished."""
        found = self._find(partition, epoch)
        found.received(offsets)
        found.partition.received.update(offsets)

    def jumped(self, partition: TopicPartition, epoch: int, next_offset: int) -> None:
        """Go on at a later offset."""
        self._find(partition, epoch).jumped(next_offset)

    def started(
        self, partition: TopicPartition, epoch: int, offset: int, key: Hashable, attempt: int
    ) -> None:
        """Judge the beginning of an attempt."""
        found = self._current.get(partition)
        if found is None or found.number != epoch:
            found = self._find(partition, epoch)
        found.started(offset, key, attempt)
        if self._checker.lane_scope is not None:
            self._judge_shared_lane(found, offset, key)

    def finished(
        self, partition: TopicPartition, epoch: int, offset: int, key: Hashable, attempt: int, outcome: str
    ) -> None:
        """Judge the end of an attempt, or an outcome without one."""
        found = self._current.get(partition)
        if found is None or found.number != epoch:
            found = self._find(partition, epoch)
        found.finished(offset, key, attempt, outcome)

    def commit_requested(self, next_offsets: Mapping[TopicPartition, int]) -> None:
        """Judge a commit at the moment its value is fixed."""
        for partition, next_offset in next_offsets.items():
            found = self._latest(partition)
            found.partition.commits.requested(found, next_offset)

    def commit_acknowledged(self, next_offsets: Mapping[TopicPartition, int]) -> None:
        """Judge a commit at the moment it is known to be stored."""
        for partition, next_offset in next_offsets.items():
            found = self._latest(partition)
            found.partition.commits.acknowledged(found, next_offset)

    def commit_failed(self, next_offsets: Mapping[TopicPartition, int], _error: str) -> None:
        """Forget a commit that was refused or never answered."""
        for partition, next_offset in next_offsets.items():
            self._checker.partition(partition).commits.failed(self.run, next_offset)

    def mirrored(self, next_offsets: Mapping[TopicPartition, int]) -> None:
        """Judge checkpoints of the mirror against the group's commits."""
        for partition, next_offset in next_offsets.items():
            self._checker.partition(partition).mirrored(next_offset, self.pid)

    def ended(self) -> None:
        """Note that the process is gone: nothing of it runs, and nothing of it will be answered."""
        for epoch in [*self._current.values(), *self._ended.values()]:
            epoch.partition.close(epoch, dead=True)
            epoch.partition.commits.ended(self.run)

    def _find(self, partition: TopicPartition, number: int) -> EpochCheck:
        current = self._current.get(partition)
        if current is not None and current.number == number:
            return current
        ended = self._ended.get((partition, number))
        if ended is not None:
            return ended
        if current is None or number > current.number:
            where = f"{partition} (epoch {number}, pid {self.pid})"
            self._checker.findings.add(Measure.BREACH, f"{where}: used before it was assigned")
            self.assigned(partition, number, "")
            return self._current[partition]
        forgotten = self._ended[partition, number] = self._new_epoch(partition, number, "")
        forgotten.closed = forgotten.settled_exposure = True
        return forgotten

    def _latest(self, partition: TopicPartition) -> EpochCheck:
        current = self._current.get(partition)
        return self._find(partition, 0) if current is None else current

    def _new_epoch(self, partition: TopicPartition, number: int, position: str) -> EpochCheck:
        return EpochCheck(
            self._checker.partition(partition),
            number=number,
            run=self.run,
            pid=self.pid,
            position=position,
            null_key_ordered=self._checker.null_key_ordered,
        )

    def _set_aside(self, old: EpochCheck) -> None:
        if not old.closed:
            text = f"{old.where()}: assigned anew without the end of this epoch"
            self._checker.findings.add(Measure.BREACH, text)
            old.partition.close(old, dead=False)
        if old.in_flight():
            self._ended[old.partition.name, old.number] = old
        for place, epoch in list(self._ended.items()):
            if not epoch.in_flight():
                del self._ended[place]

    def _judge_shared_lane(self, epoch: EpochCheck, offset: int, key: Hashable) -> None:
        if key is None and not self._checker.null_key_ordered:
            return
        scope_of = self._checker.lane_scope
        assert scope_of is not None
        scope = scope_of(epoch.partition.name)
        for name, other in self._current.items():
            if other is epoch or other.closed or scope_of(name) != scope:
                continue
            if other.holds(key, running=False):
                text = f"{epoch.where(offset, key)} started while {other.where()} held its key"
                self._checker.findings.add(Measure.ORDER, text)
                return
