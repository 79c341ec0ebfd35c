"""Finished offsets above the watermark, saved with a simulated commit and taken up by the next owner.

A plain text format of the simulation's own: `next_offset:offset,offset,…`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ehkafka.lanes.assignment import Assignment
    from ehkafka.records import TopicPartition
    from ehkafka.testing.simulated_member import SimulatedMember


class FinishedOffsets:
    """What one member's handlers finished, by epoch."""

    def __init__(self, member: SimulatedMember) -> None:
        self._member = member
        self._saves = member.world.plan.saves_ranges
        self._finished: dict[tuple[TopicPartition, int], set[int]] = {}

    def add(self, assignment: Assignment, offset: int) -> None:
        """Note an outcome; those of ended epochs are nobody's."""
        if self._saves and not assignment.ended:
            self._finished.setdefault((assignment.partition, assignment.epoch), set()).add(offset)

    def note_received(self, assignment: Assignment, offsets: Sequence[int]) -> None:
        """Tell the history of a batch, without what an earlier epoch finished: it gets no outcome here."""
        history, before = self._member.history, assignment.finished_before
        partition, epoch = assignment.partition, assignment.epoch
        if before is None:
            history.received(partition, epoch, offsets)
            return
        for offset in offsets:
            if offset in before:
                self.add(assignment, offset)
        history.received(partition, epoch, [offset for offset in offsets if offset not in before])
        # The history's protocol has no word for a record that is received and needs no outcome.
        found = history._find(partition, epoch)  # noqa: SLF001
        found.last_received = max(found.last_received, offsets[-1])

    def encode(self, assignment: Assignment, next_offset: int) -> str | None:
        """Return what a commit says of the records above it."""
        finished = self._finished.get((assignment.partition, assignment.epoch), ())
        above = sorted(offset for offset in finished if offset >= next_offset)
        return f"{next_offset}:{','.join(map(str, above))}" if above else None

    def decode(self, offset: int, metadata: str | None) -> frozenset[int] | None:
        """Return the offsets finished above a commit, `None` if it says nothing of them."""
        if not metadata:
            return None
        next_offset, _, offsets = metadata.partition(":")
        assert int(next_offset) == offset
        return frozenset(map(int, offsets.split(",")))

    def forget(self, partition: TopicPartition, epoch: int) -> None:
        """Drop an epoch's offsets."""
        self._finished.pop((partition, epoch), None)
