"""What the mirror knows and owes: per partition the blob as it was last seen, and what is to be written.

Pure; time comes in as an argument; the caller has a lock around it. Decides two things on which it all
depends. *Never ahead*: only what the broker acknowledged comes in here. *Never back*: a write carries the
version of the blob that was seen, and what was seen may be replaced only

- by a higher next_offset, or
- by a commit that was asked for after the blob was read: the group answers only an owner, so the writer of
  that blob owned the partition before us. So an operator's rewind gets into the mirror, and a process that
  slept through the loss of its partition does not take the mirror back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ehkafka.checkpoints.checkpoint import Checkpoint
from ehkafka.checkpoints.mirror.foreign import is_copy
from ehkafka.progress.ledger import Position

if TYPE_CHECKING:
    from ehkafka.checkpoints.checkpoint import CommitMetadata
    from ehkafka.checkpoints.mirror.foreign import Foreign
    from ehkafka.checkpoints.stores.store import Version
    from ehkafka.records import TopicPartition

# What is left of an epoch that ended is not worth more time: its next owner writes.
ENDED_S = 60.0
# How soon a blob that is not ours is looked at again.
FOREIGN_CHECK_S = 60.0


class SeenBlob(NamedTuple):
    """A blob as it was read or written: no `version`, none is there; no `checkpoint`, it is foreign."""

    version: Version | None
    checkpoint: Checkpoint | None
    # When the answer was there.
    at_s: float

    @property
    def is_foreign(self) -> bool:
        """Whether another program's blob is there, which is never overwritten."""
        return self.version is not None and self.checkpoint is None


class Owed(NamedTuple):
    """What the broker acknowledged, and when that commit was asked for."""

    position: Position
    requested_s: float


class Write(NamedTuple):
    """A write to be carried out. Without `expected` the blob must not be there yet."""

    epoch: int
    checkpoint: Checkpoint
    expected: Version | None


@dataclass(slots=True)
class _Mirrored:
    epoch: int
    seen: SeenBlob | None = None
    owed: Owed | None = None
    # Since when the mirror has been behind; None while it is not.
    behind_since_s: float | None = None
    next_write_s: float = float("-inf")
    next_read_s: float = float("-inf")
    ended_at_s: float | None = None
    # Whether `owed` is of an earlier epoch, and nothing was acknowledged in this one yet.
    is_inherited: bool = False
    # The blob as that epoch had seen it: unchanged, it may be replaced as before.
    seen_before: SeenBlob | None = None
    # Where the group stood when this epoch began, and who had put it there (None: the blob tells). What the
    # blob has above another client's commit is taken out before a commit of ours makes it look true.
    committed: int | None = None
    is_ours: bool | None = True
    is_overruled: bool = False
    # Whether the blob has ranges and does not say yet what was found out about the service.
    owes_answer: bool = False
    # An owner's name that was reported: two apps that take turns are reported once.
    reported_of: str | None = None
    # The blob of another program that is there.
    foreign: Foreign | None = None


@dataclass(slots=True)
class MirrorBook:
    """The partitions of one run. `owner` is that run; a partition is written every `interval_s` at most."""

    owner: str
    interval_s: float
    group: str = ""
    # Whether the service gives commits' metadata back, once that is known.
    metadata_returned: bool | None = None
    _entries: dict[TopicPartition, _Mirrored] = field(default_factory=dict)

    def assigned(
        self,
        partition: TopicPartition,
        epoch: int,
        committed: int | None = None,
        *,
        is_ours: bool | None = True,
    ) -> None:
        """Begin an epoch: what was seen in an earlier one may have been replaced since.

        `committed` is where the group stands, and `is_ours` whether we have put it there (see `is_copy`).
        What an earlier epoch owes is owed still if it is that: where nothing more comes, no other commit
        would bring it into the mirror.
        """
        before, entry = self._entries.get(partition), _Mirrored(epoch, committed=committed, is_ours=is_ours)
        self._entries[partition] = entry
        if before is None or before.owed is None or before.behind_since_s is None:
            return
        owed = before.owed.position
        # A commit that says nothing is ours if ours said nothing, or nothing is returned.
        may_be_that = is_ours or (is_ours is None and (not owed.metadata or self.metadata_returned is False))
        if may_be_that and owed.next_offset == committed:
            entry.owed, entry.behind_since_s, entry.is_inherited = before.owed, before.behind_since_s, True
            entry.seen_before = before.seen

    def acknowledged(
        self, partition: TopicPartition, position: Position, requested_s: float, now_s: float
    ) -> None:
        """Take what the broker stored; the newest replaces what was not written yet."""
        entry = self._entries.get(partition)
        if entry is None or entry.epoch != position.epoch:
            return
        entry.owed, entry.is_inherited = Owed(position, requested_s), False
        self._note_behind(entry, now_s)

    def ended(self, partition: TopicPartition, epoch: int, now_s: float) -> None:
        """End an epoch: what it has acknowledged is still written, if no other member has written since."""
        entry = self._entries.get(partition)
        if entry is None or entry.epoch != epoch or entry.ended_at_s is not None:
            return
        entry.ended_at_s = now_s
        self._drop_hopeless(partition, entry)

    def forget_ended(self, now_s: float | None = None) -> None:
        """Forget epochs that ended so long ago that another member has written; without a time, all."""
        for partition, entry in list(self._entries.items()):
            ended_s = entry.ended_at_s
            if ended_s is not None and (now_s is None or now_s - ended_s > ENDED_S):
                del self._entries[partition]

    def to_read(self, now_s: float) -> list[tuple[TopicPartition, int]]:
        """Return the partitions, with their epochs, whose blobs must be seen before anything is written."""
        return [
            (partition, entry.epoch)
            for partition, entry in self._entries.items()
            if entry.seen is None and entry.next_read_s <= now_s
        ]

    def to_write(self, now_s: float, *, hurry: bool = False) -> list[TopicPartition]:
        """Return the partitions that may be written now; in a hurry, whatever the interval says."""
        return [
            partition
            for partition, entry in self._entries.items()
            if _may_write(entry, self.owner)
            and (hurry or entry.ended_at_s is not None or entry.next_write_s <= now_s)
        ]

    def write(self, partition: TopicPartition, written_at_ms: int) -> Write | None:
        """Return what to write, None if nothing is owed any more."""
        entry = self._entries.get(partition)
        if entry is None or not _may_write(entry, self.owner):
            return None
        assert entry.owed is not None
        assert entry.seen is not None
        position, known = entry.owed.position, entry.seen.checkpoint
        facts = position.facts
        if facts.witness is None:
            facts = facts._replace(witness=_kept_witness(known, position.next_offset))
        checkpoint = Checkpoint(
            next_offset=position.next_offset,
            finished=position.finished,
            finished_leader_epoch=position.finished_leader_epoch,
            leader_epoch=position.leader_epoch,
            epoch=entry.epoch,
            owner=self.owner,
            written_at_ms=written_at_ms,
            group=self.group,
            topic=partition.topic,
            facts=facts,
            commit_metadata=_metadata_of(position),
            metadata_returned=self._metadata_returned(known),
        )
        return Write(entry.epoch, checkpoint, entry.seen.version)

    def was_read(
        self, partition: TopicPartition, epoch: int, seen: SeenBlob, foreign: Foreign | None = None
    ) -> None:
        """Take a blob as it is."""
        entry = self._entries.get(partition)
        if entry is None or entry.epoch != epoch:
            return
        entry.foreign = foreign
        if entry.is_inherited and entry.seen_before is not None and entry.seen_before.version == seen.version:
            seen = entry.seen_before
        # A foreign one is never overwritten, but it may be taken away.
        entry.seen = None if seen.is_foreign else seen
        _overrule(entry, seen.checkpoint)
        entry.owes_answer = self._owes_answer(seen.checkpoint)
        if seen.is_foreign:
            entry.next_read_s = seen.at_s + FOREIGN_CHECK_S
        elif entry.is_inherited and not _may_write(entry, self.owner):
            # The member that owned the partition meanwhile has written, and knew no less.
            entry.owed, entry.is_inherited = None, False
        self._note_behind(entry, seen.at_s)
        self._drop_hopeless(partition, entry)

    def was_written(self, partition: TopicPartition, done: Write, version: Version, now_s: float) -> None:
        """Take what a write has put there."""
        entry = self._entries.get(partition)
        if entry is None or entry.epoch != done.epoch:
            return
        entry.seen = SeenBlob(version, done.checkpoint, now_s)
        entry.next_write_s = now_s + self.interval_s
        entry.behind_since_s, entry.is_ours, entry.is_overruled = None, True, False
        entry.owes_answer = self._owes_answer(done.checkpoint)
        self._note_behind(entry, now_s)
        self._drop_hopeless(partition, entry)

    def learned(self, now_s: float, *, is_returned: bool) -> None:
        """Take whether the service returns what commits say; what has ranges is to say so, too."""
        self.metadata_returned = is_returned
        for entry in self._entries.values():
            entry.owes_answer = entry.seen is not None and self._owes_answer(entry.seen.checkpoint)
            self._note_behind(entry, now_s)

    def was_refused(self, partition: TopicPartition) -> int | None:
        """Note that a write met another version: the blob must be read again, for the epoch returned."""
        entry = self._entries.get(partition)
        if entry is None:
            return None
        entry.seen = None
        return entry.epoch

    def is_news(self, partition: TopicPartition, owner: str) -> bool:
        """Tell whether another owner's name is news in this epoch."""
        entry = self._entries.get(partition)
        if entry is None or owner in (entry.reported_of, self.owner):
            return False
        entry.reported_of = owner
        return True

    def owed_offset(self, partition: TopicPartition) -> int | None:
        """Return the next_offset that is to be written, None if nothing is."""
        entry = self._entries.get(partition)
        return entry.owed.position.next_offset if entry is not None and entry.owed is not None else None

    def behind(self) -> list[TopicPartition]:
        """Return the partitions whose mirror is older than their commit."""
        return [p for p, entry in self._entries.items() if entry.behind_since_s is not None]

    def foreign(self) -> dict[TopicPartition, Foreign]:
        """Return the partitions whose blobs are another program's, so that they are not mirrored."""
        return {p: entry.foreign for p, entry in self._entries.items() if entry.foreign is not None}

    def behind_s(self, now_s: float) -> float:
        """Return for how long the mirror has been behind in the partition that has waited longest."""
        since = [e.behind_since_s for e in self._entries.values() if e.behind_since_s is not None]
        return max(0.0, now_s - min(since)) if since else 0.0

    def next_due_s(self) -> float | None:
        """Return when something is to be done, were nothing to change; None: not by itself."""
        due = [entry.next_read_s for entry in self._entries.values() if entry.seen is None]
        due += [entry.next_write_s for entry in self._entries.values() if _may_write(entry, self.owner)]
        return min(due, default=None)

    def _drop_hopeless(self, partition: TopicPartition, entry: _Mirrored) -> None:
        """Forget an ended epoch that owes nothing, or that nothing can show any more to be the newer one."""
        is_hopeless = entry.seen is not None and not _may_write(entry, self.owner)
        if entry.ended_at_s is not None and (entry.behind_since_s is None or is_hopeless):
            del self._entries[partition]

    def _owes_answer(self, there: Checkpoint | None) -> bool:
        known = self.metadata_returned
        return (
            known is not None
            and there is not None
            and bool(there.finished)
            and there.metadata_returned is not known
        )

    def _metadata_returned(self, known: Checkpoint | None) -> bool | None:
        """Return what this run has found out, else what an earlier one had."""
        if self.metadata_returned is None and known is not None:
            return known.metadata_returned
        return self.metadata_returned

    @staticmethod
    def _note_behind(entry: _Mirrored, now_s: float) -> None:
        if not _is_owed(entry):
            entry.behind_since_s = None
        elif entry.behind_since_s is None:
            entry.behind_since_s = now_s


def _is_owed(entry: _Mirrored) -> bool:
    if entry.owed is None:
        return False
    known = entry.seen.checkpoint if entry.seen is not None else None
    wanted = entry.owed.position
    if known is None or (known.next_offset, known.finished) != (wanted.next_offset, wanted.finished):
        return True
    # Reported once, as soon as it is known: what a commit without metadata belongs to, only the mirror says.
    if wanted.facts.topic_id not in (None, known.facts.topic_id):
        return True
    # Without ranges it is no matter who made the commit.
    return entry.owes_answer or (bool(known.finished) and known.commit_metadata != _metadata_of(wanted))


def _may_write(entry: _Mirrored, owner: str) -> bool:
    seen, owed = entry.seen, entry.owed
    if seen is None or owed is None or not _is_owed(entry):
        return False
    there = seen.checkpoint
    if there is None or owed.requested_s > seen.at_s:
        return True
    if there.owner == owner or entry.is_overruled:
        return there.next_offset <= owed.position.next_offset
    return there.next_offset < owed.position.next_offset


def _overrule(entry: _Mirrored, there: Checkpoint | None) -> None:
    """Take out what the blob has above another client's commit at the same offset."""
    at = entry.committed
    if there is None or at is None or there.next_offset != at or not there.finished:
        return
    entry.is_overruled = not is_copy(there, at, is_ours=entry.is_ours)
    if entry.is_overruled and entry.owed is None:
        entry.owed = Owed(_without_ranges(there), float("-inf"))


def _without_ranges(there: Checkpoint) -> Position:
    return Position(there.epoch, there.next_offset, there.leader_epoch, facts=there.facts)


def _metadata_of(position: Position) -> CommitMetadata:
    return "ours" if position.metadata else "none"


def _kept_witness(known: Checkpoint | None, next_offset: int) -> tuple[int, int] | None:
    """Return an older record of the same log, where no newer one's timestamp is known."""
    witness = known.facts.witness if known is not None else None
    return witness if witness is not None and witness[0] < next_offset else None
