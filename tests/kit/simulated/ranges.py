"""Finished offsets above the watermark, saved with a simulated commit and taken up by the next owner.

The engine's own saving and text; next to it the offsets that ended are kept one by one, to judge the ranges.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from ehkafka.lanes.finished import FinishedBefore
from ehkafka.progress.metadata import CommitMetadata, LogFacts, Unusable, decode, facts_of
from ehkafka.progress.saving import ProgressSaver

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ehkafka.lanes.epoch import Epoch
    from ehkafka.progress.ledger import Position
    from ehkafka.records import Message, TopicPartition
    from tests.kit.simulated.member import SimulatedMember

BYTES_MAX = 1_000
# In so many all facts have room.
FACTS_BYTES = 64
# What every commit carries on.
FIRST_PARTITIONS = 7


class FinishedOffsets:
    """What one member's handlers finished, by epoch."""

    def __init__(self, member: SimulatedMember) -> None:
        self._member = member
        # Of its own: which commits are made without a look is not what the seeds are about.
        self._chance = random.Random(member.world.plan.seed)
        self._saver = ProgressSaver(BYTES_MAX if member.world.plan.saves_ranges else 0)
        self._ended: dict[tuple[TopicPartition, int], set[int]] = {}
        self._received: dict[tuple[TopicPartition, int], set[int]] = {}
        # What earlier commits of the epoch said.
        self._saved: dict[tuple[TopicPartition, int], set[int]] = {}

    def add(self, epoch: Epoch, offset: int) -> None:
        """Note an outcome; one of an ended epoch counts nowhere."""
        if not epoch.ended:
            self._ended.setdefault((epoch.partition, epoch.number), set()).add(offset)

    def note_received(self, epoch: Epoch, messages: Sequence[Message]) -> None:
        """Tell the history of a batch, without what an earlier epoch finished: it gets no outcome here."""
        history, before = self._member.history, epoch.received.finished_before
        partition, number = epoch.partition, epoch.number
        offsets = [message.offset() for message in messages]
        self._received.setdefault((partition, number), set()).update(offsets)
        if before is None:
            history.received(partition, number, offsets)
            return
        fresh = [offsets[place] for place in before.fresh(messages)]
        for offset in set(offsets).difference(fresh):
            self.add(epoch, offset)
        if fresh:
            history.received(partition, number, fresh)
        history.jumped(partition, number, offsets[-1] + 1)

    def position(self, epoch: Epoch, *, is_last: bool) -> Position | None:
        """Return what a commit says of an epoch, judged. Caller has the lock.

        For the last one of an epoch there is always time to see all that is finished.
        """
        sample = self._saver.sample(epoch, fully=is_last or self._chance.random() < 0.5)
        if sample is None:
            return None
        position = self._saver.position(sample)
        place = epoch.partition, epoch.number
        owed = self._received.get(place, set()) - self._ended.get(place, set())
        self._judge(place, position)
        for start, end in position.finished:
            if wrong := sorted(offset for offset in owed if start <= offset < end):
                self._member.world.problem(f"{place} says that {wrong} are finished")
        if len(position.metadata or "") > BYTES_MAX:
            self._member.world.problem(f"{place} has metadata of {len(position.metadata or '')} bytes")
        if self._member.world.plan.saved_bytes_max >= FACTS_BYTES:
            self._judge_facts(place, position)
        return position

    def _judge_facts(self, place: tuple[TopicPartition, int], position: Position) -> None:
        if position.metadata and facts_of(position.next_offset, position.metadata) != position.facts:
            self._member.world.problem(f"{place} does not carry {position.facts} in its metadata")
        if position.facts.first_partitions != FIRST_PARTITIONS:
            self._member.world.problem(f"{place} has lost what its first commits said")

    def _judge(self, place: tuple[TopicPartition, int], position: Position) -> None:
        """Nothing that has ended and was said is taken back by a later commit."""
        now = {offset for start, end in position.finished for offset in range(start, end)}
        decoded = self._saved.setdefault(place, set())
        due = {offset for offset in decoded & self._ended.get(place, set()) if offset >= position.next_offset}
        if taken_back := sorted(due - now):
            self._member.world.problem(f"{place} says no more that {taken_back} are finished")
        decoded |= now

    def restore(self, partition: TopicPartition, offset: int, metadata: str | None) -> FinishedBefore | None:
        """Carry a commit's facts on; return what is finished above it, `None` if it says nothing of that."""
        decoded = decode(metadata or "", offset)
        # What was committed without metadata, or never, begins as a group begins.
        decoded = CommitMetadata(LogFacts(FIRST_PARTITIONS)) if isinstance(decoded, Unusable) else decoded
        self._saver.carry(partition, decoded.facts)
        return FinishedBefore(*decoded.ranges[:2]) if decoded.ranges.finished else None

    def carried(self, partition: TopicPartition) -> LogFacts:
        """Return the facts that commits of a partition carry on."""
        return self._saver.carried(partition)

    def begin(self, epoch: Epoch, stored: Position | None) -> None:
        """Begin an epoch with what the group has."""
        self._saver.begin(epoch, stored)

    def forget(self, partition: TopicPartition, number: int) -> None:
        """Drop an epoch's offsets."""
        self._ended.pop((partition, number), None)
        self._received.pop((partition, number), None)
        self._saved.pop((partition, number), None)
        self._saver.forget(partition, number)
