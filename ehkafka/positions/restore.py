"""Records that an earlier epoch finished above the group's commit, found when a partition is assigned.

On the poll thread, as `finder`; asks the broker where logs end only for partitions that have something to
restore, and they wait where it does not answer: to ignore what is finished would repeat it. The group's
commit decides: whatever says of ranges above it counts only if it was written for that very commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import KafkaException

from ehkafka.events import ProgressIgnored, ProgressRestored
from ehkafka.lanes.finished import FinishedBefore
from ehkafka.positions.log_bounds import log_bounds, unanswered
from ehkafka.progress.ledger import Position
from ehkafka.progress.metadata import CommitMetadata, Unusable, decode
from ehkafka.progress.ranges import Known, Ranges, count_offsets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from confluent_kafka import Consumer

    from ehkafka.events import Event
    from ehkafka.positions.finder import Begin
    from ehkafka.positions.mirror_start import MirrorRanges
    from ehkafka.records import TopicPartition

BOUNDS_TIMEOUT_S = 5.0
COMMIT = "the group's commit"


class GroupCommit(NamedTuple):
    """Where a group stands in a partition.

    `is_ours`: whether an app of ours has put it there, by the commit's metadata. None: there are none,
    so only a copy of that commit can tell.
    """

    next_offset: int
    is_ours: bool | None


class Restored(NamedTuple):
    """The restored ranges of one partition. `text` is the commit's own metadata where that is the source."""

    partition: TopicPartition
    next_offset: int
    finished: Ranges
    leader_epoch: int | None
    source: str
    text: str | None = None

    def joined(self, known: Restored | None) -> Restored:
        """Return it with what another place knows of the same commit.

        That may be less and yet nothing of it: a record that was skipped from outside is in the commit alone.
        """
        if known is None:
            return self
        both = Known(self.finished, self.leader_epoch).union(Known(known.finished, known.leader_epoch))
        if both.finished in (self.finished, known.finished):
            return known if both.finished == known.finished else self
        source = f"{known.source} and {self.source}"
        return self._replace(finished=both.finished, leader_epoch=both.leader_epoch, source=source)

    def finished_before(self) -> FinishedBefore:
        """Return it as the lanes know it."""
        return FinishedBefore(self.finished, self.leader_epoch)

    def event(self, epoch: int) -> ProgressRestored:
        """Return its event."""
        return ProgressRestored(
            self.partition,
            epoch,
            self.next_offset,
            finished_offsets=count_offsets(self.finished),
            ranges=len(self.finished),
            source=self.source,
        )


def stored(begin: Begin, epoch: int, restored: Restored | None) -> Position | None:
    """Return what the group has stored, as the ledger keeps it.

    Metadata that says nothing here is as good as none: it is no reason to commit.
    """
    found = begin.committed
    if found is None:
        return None
    position = Position(epoch, found.offset, found.leader_epoch, facts=begin.facts)
    if restored is None:
        return position
    return position._replace(
        metadata=restored.text, finished=restored.finished, finished_leader_epoch=restored.leader_epoch
    )


class Restore:
    """Finds what to restore. `source` is asked for ranges that the commits do not contain."""

    def __init__(
        self,
        emit: Callable[[Event], None] = lambda _event: None,
        *,
        source: MirrorRanges | None = None,
    ) -> None:
        self._emit = emit
        self._source = source
        # Metadata that was reported as unusable, by partition: once each.
        self._reported: dict[TopicPartition, str] = {}

    def find(
        self,
        consumer: Consumer,
        begins: Sequence[Begin],
        left_s: Callable[[float], float] = lambda most_s: most_s,
    ) -> tuple[Mapping[TopicPartition, Restored], Mapping[TopicPartition, str]]:
        """Return what to restore, by partition, and which wait until that is known.

        `left_s` is `PositionFinder.left_s`.
        """
        found: dict[TopicPartition, Restored] = {}
        commits = self._commits_with_more(begins, found)
        # First those that are known to have more: a source's time is bounded.
        asked = sorted(
            commits, key=lambda partition: (partition not in found, not commits[partition].is_ours)
        )
        if self._source is not None and asked:
            self._ask(self._source, {partition: commits[partition] for partition in asked}, found)
        try:
            return self._inside_the_logs(consumer, found, left_s(BOUNDS_TIMEOUT_S)), {}
        except KafkaException as error:
            return {}, unanswered(error, found)

    def _commits_with_more(
        self, begins: Sequence[Begin], found: dict[TopicPartition, Restored]
    ) -> dict[TopicPartition, GroupCommit]:
        """Note what the commits say to be finished; return those that may not say all."""
        commits: dict[TopicPartition, GroupCommit] = {}
        for begin in begins:
            if begin.committed is None and not begin.is_mirrored:
                continue
            decoded = self._metadata_of(begin)
            partition, offset = begin.partition, begin.offset
            if isinstance(decoded, CommitMetadata) and not decoded.drops_ranges:
                finished, leader_epoch, is_complete = decoded.ranges
                if finished:
                    text = begin.committed.metadata if begin.committed is not None else None
                    found[partition] = Restored(partition, offset, finished, leader_epoch, COMMIT, text)
                if is_complete:
                    continue
            commits[partition] = GroupCommit(offset, _is_ours(begin, decoded))
        return commits

    def _metadata_of(self, begin: Begin) -> CommitMetadata | Unusable | None:
        """Return what the metadata of the group's commit say; None where there are none, or no commit."""
        text = begin.committed.metadata if begin.committed is not None else None
        if not text:
            return None
        decoded = decode(text, begin.offset)
        if isinstance(decoded, Unusable) and self._reported.get(begin.partition) != text:
            self._reported[begin.partition] = text
            self._emit(ProgressIgnored(begin.partition, begin.offset, decoded.value, COMMIT))
        return decoded

    @staticmethod
    def _ask(
        source: MirrorRanges,
        commits: Mapping[TopicPartition, GroupCommit],
        found: dict[TopicPartition, Restored],
    ) -> None:
        for partition, progress in source.progress_at(commits).items():
            commit = commits.get(partition)
            if commit is None or commit.is_ours is False:
                continue  # an operator moved the group there and wants all from there
            if progress.next_offset != commit.next_offset or not progress.finished:
                continue
            one = Restored(
                partition,
                progress.next_offset,
                progress.finished,
                progress.finished_leader_epoch,
                source.name,
            )
            found[partition] = one.joined(found.get(partition))

    def _inside_the_logs(
        self, consumer: Consumer, found: dict[TopicPartition, Restored], timeout_s: float
    ) -> dict[TopicPartition, Restored]:
        """Return what lies inside of its log: ranges beyond its end are of another log of that name."""
        bounds = log_bounds(consumer, found, timeout_s)
        inside = {p: r for p, r in found.items() if r.finished[-1][1] <= bounds[p].end}
        reason = "the log ends below what it says is finished, so it is another log now"
        for partition in found.keys() - inside.keys():
            restored = found[partition]
            self._emit(ProgressIgnored(partition, restored.next_offset, reason, restored.source))
        return inside


def _is_ours(begin: Begin, decoded: CommitMetadata | Unusable | None) -> bool | None:
    if begin.committed is None:
        return True  # it begins at the copy itself
    if decoded is None:
        return None
    return isinstance(decoded, CommitMetadata) and not decoded.drops_ranges
