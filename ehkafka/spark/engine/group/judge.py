"""Whether a group's commits are still this run's, judged by what is read back of them. Pure.

Kafka has no commit that fails when somebody else has committed, so runs settle it by their marks. One that
begins while another one's mark stands there writes its own and waits: a run that lives puts its mark back,
and the newcomer gives way. A run that slept meanwhile tries that once and then gives way itself, because the
one that took over puts its mark back whenever it finds that of the run before. One that took over and has
ended cannot: where it came further, the run that slept gives way at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ehkafka.spark.engine.group.marks import Mark

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ehkafka.progress.ledger import Position
    from ehkafka.records import TopicPartition


class Commit(NamedTuple):
    """What the group has for a partition; the offset is negative where it has nothing."""

    offset: int
    metadata: str


class Ownership(NamedTuple):
    """What follows of a look.

    `again`: partitions whose commit is to be recreated. `challenger`: another run that has begun and gives
    way. `lost_to`: the run that has the group now. `moved`: what somebody else has committed, who is no run
    on Spark; `is_sure` when the look before found it, too. Until then nothing may be committed over it.
    """

    again: frozenset[TopicPartition] = frozenset()
    challenger: str | None = None
    lost_to: str | None = None
    moved: Mapping[TopicPartition, Commit] = {}
    is_sure: bool = False

    @property
    def may_commit(self) -> bool:
        """Whether a commit would overwrite nobody's."""
        return not self.moved and self.lost_to is None


def moved_since(
    before: Mapping[TopicPartition, Commit],
    now: Mapping[TopicPartition, Commit],
    starts: Mapping[TopicPartition, Position],
    run: str,
) -> dict[TopicPartition, Commit]:
    """Return what others have committed since `run`, which is to begin at `starts`, has read `before`."""
    return {
        partition: commit
        for partition, commit in now.items()
        if not _stood_there(commit, before.get(partition))
        and not _takes_nothing_away(commit, starts[partition], run)
    }


def _stood_there(commit: Commit, before: Commit | None) -> bool:
    return commit.offset < 0 if before is None else commit == before


def _takes_nothing_away(commit: Commit, start: Position, run: str) -> bool:
    mark = Mark.read(commit.metadata)
    if mark is not None and not mark.has_ended:
        return mark.run == run  # an answer may have been lost, or only a part refused
    return commit.offset == start.next_offset


@dataclass(slots=True)
class Claim:
    """One run's claim to a group. `before` are the runs whose marks it found when it began."""

    mark: Mark
    before: Collection[str] = ()
    # Whether the broker gives marks back as they were written. Else offsets alone are compared.
    keeps_marks: bool = True
    # Until nobody has answered to the first commit: it gives way.
    is_new: bool = True
    _answered: set[str] = field(default_factory=set)
    _moved: dict[TopicPartition, Commit] = field(default_factory=dict)

    def judge(
        self,
        found: Mapping[TopicPartition, Commit],
        ours: Mapping[TopicPartition, Position],
        wanted: Mapping[TopicPartition, Position],
    ) -> Ownership:
        """Compare what the group has with what the broker has acknowledged to us, nothing being under way.

        `wanted` is what was sent last, or is to be sent: an answer may have been lost.
        """
        again: set[TopicPartition] = set()
        moved: dict[TopicPartition, Commit] = {}
        others: dict[str, set[TopicPartition]] = {}
        went_on: set[str] = set()
        for partition, commit in found.items():
            if partition not in ours:
                continue
            mark = Mark.read(commit.metadata)
            if commit.offset < 0:  # expired
                again.add(partition)
            elif mark is not None and mark.run != self.mark.run:
                others.setdefault(mark.run, set()).add(partition)
                if mark.has_ended and commit.offset > ours[partition].next_offset:
                    went_on.add(mark.run)
            elif self._is_ours(commit, ours[partition], wanted[partition]):
                continue
            elif mark is None:
                moved[partition] = commit
            else:  # an older one of our own, which may come back when a broker fails
                again.add(partition)
        is_sure = any(self._moved.get(partition) == commit for partition, commit in moved.items())
        self._moved = moved
        ownership = self._others(others, frozenset(again), went_on - set(self.before))
        return ownership._replace(moved=moved, is_sure=is_sure)

    def _others(
        self,
        others: Mapping[str, set[TopicPartition]],
        again: frozenset[TopicPartition],
        went_on: Collection[str],
    ) -> Ownership:
        challenger = None
        for run, partitions in others.items():
            if self.is_new or run in self._answered or run in went_on:
                return Ownership(lost_to=run)
            if run not in self.before:
                self._answered.add(run)
                challenger = run
            again |= partitions
        return Ownership(again, challenger)

    def _is_ours(self, commit: Commit, acknowledged: Position, wanted: Position) -> bool:
        if not self.keeps_marks:
            return acknowledged.next_offset <= commit.offset <= wanted.next_offset
        # An equal offset without a word takes nothing away.
        is_marked = Mark.read(commit.metadata) is not None
        return commit.offset == acknowledged.next_offset and (is_marked or not commit.metadata)
