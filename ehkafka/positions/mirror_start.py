"""Where a partition begins whose group has no commit: at the mirror, at `start`, or nowhere.

On the poll thread, inside the assign callback; waits for the store and the broker, for a bounded time. The
mirror is never asked where the group has a commit, so an operator's rewind is never undone. It counts only
for the same log. While it cannot be asked, its partitions wait: to begin at `start` instead could skip
records that were never handled. A store that refuses its first question is a wrong setting, which ends the
app.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ehkafka.checkpoints.checkpoint import Checkpoint
from ehkafka.checkpoints.mirror.foreign import Foreign, is_copy
from ehkafka.checkpoints.stores.store import StoreUnavailableError
from ehkafka.errors import EndpointError
from ehkafka.events import ProgressIgnored
from ehkafka.events.mirror import MirrorUsed
from ehkafka.positions.without_commit import KnownStarts, WithoutCommit
from ehkafka.wording import counted, ended

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ehkafka.checkpoints.mirror.mirror import Mirror
    from ehkafka.checkpoints.mirror.work import Lookup
    from ehkafka.events import Event
    from ehkafka.positions.restore import GroupCommit
    from ehkafka.positions.same_log import Judgement
    from ehkafka.progress.metadata import LogFacts
    from ehkafka.records import TopicPartition
    from ehkafka.settings import OnNoGroupOffsets

    # Whether logs are still those of our mirror's checkpoints. Raises `EndpointError`.
    Prove = Callable[[Mapping[TopicPartition, Checkpoint]], Mapping[TopicPartition, Judgement]]

# An assignment waits so long for the mirror, while answers come: so long for the next one, or where the store
# did not answer the last time.
LOOKUP_S = 10.0
NEXT_S = 2.0
DOWN_S = 0.5
# What is finished above a commit only spares repeats: not worth holding up an assignment for long.
RESTORE_S = 2.0
_NAMED = 10
_BARE = "another program has made the group's commit, which has no metadata of ehkafka's"
_UNPROVED = "the record that identifies the log could not be read in time"
_STEP = "Repair the mirror, or set on_no_group_offsets='start' to begin at start= instead."


class MirrorStart(WithoutCommit):
    """Finds starts for partitions without a commit, in the mirror if the policy wants that."""

    def __init__(
        self,
        policy: OnNoGroupOffsets,
        *,
        group: str,
        emit: Callable[[Event], None],
        mirror: Mirror,
        prove: Prove,
    ) -> None:
        super().__init__(policy, group=group)
        self._emit = emit
        self._mirror = mirror
        self._prove = prove
        # The question about partitions that wait, answered or not; and the others that it was also about.
        self._asked: Lookup | None = None
        self._others: Sequence[TopicPartition] = ()

    def find(self, partitions: Sequence[TopicPartition], others: Sequence[TopicPartition]) -> KnownStarts:
        """Return where those begin that begin at the mirror, and which have to wait for it.

        Raises `EndpointError`.
        """
        super().find(partitions, others)
        if not partitions or self._policy != "mirror":
            return KnownStarts()
        self._others = others
        # Others first: without their facts nothing is known of the topic's first partitions.
        lookup = self._lookup([*others, *partitions])
        found = dict(lookup.found)
        self._refuse_contested({p: found[p] for p in partitions if p in found})
        reason = str(lookup.error or "its store has not answered yet")
        is_unknown = any(other not in found for other in others)
        waiting = {p: reason for p in partitions if is_unknown or p not in found}
        known = {p: one for p, one in found.items() if isinstance(one, Checkpoint)}
        offsets, unproved = self._verified(
            {p: known[p] for p in partitions if p in known and p not in waiting}
        )
        facts = {p: one.facts for p, one in known.items()}
        return KnownStarts(offsets, facts, {p: _waits(why) for p, why in (waiting | unproved).items()})

    def is_known(self, partitions: Sequence[TopicPartition]) -> bool:
        """Ask the mirror again about partitions that wait; True once it has answered, or failed."""
        asked = self._asked
        if asked is None or not set(partitions) <= set(asked.partitions):
            asked = self._ask([*self._others, *partitions])
        return asked.done.is_set()

    def _ask(self, partitions: Sequence[TopicPartition]) -> Lookup:
        if self._asked is not None:
            self._asked.is_given_up = True
        self._asked = self._mirror.ask(partitions)
        return self._asked

    def _lookup(self, partitions: Sequence[TopicPartition]) -> Lookup:
        """Return an answer, as far as there is one. Raises `EndpointError` for a wrong setting."""
        lookup = self._asked
        if lookup is None or not lookup.done.is_set() or not set(partitions) <= set(lookup.partitions):
            lookup = self._ask(partitions)
            self._wait(lookup)
        if lookup.done.is_set():
            self._asked = None
        error = lookup.error
        if error and not (self._mirror.has_answered or isinstance(error, StoreUnavailableError)):
            raise EndpointError(
                f"The group {self._group!r} has no committed offset for "
                f"{counted(len(partitions), 'partition')}, and the mirror could not be read: {error} {_STEP}"
            ) from error
        return lookup

    def _wait(self, lookup: Lookup) -> None:
        ends_s, seen = time.monotonic() + LOOKUP_S, 0
        next_s = DOWN_S if self._mirror.is_down else NEXT_S
        while not lookup.done.wait(next_s) and len(lookup.found) > seen and time.monotonic() < ends_s:
            seen = len(lookup.found)

    def _refuse_contested(
        self, found_in_mirror: Mapping[TopicPartition, Checkpoint | Foreign | None]
    ) -> None:
        contested = {
            partition: known
            for partition, known in sorted(found_in_mirror.items())
            if isinstance(known, Foreign) and known.is_contested
        }
        if not contested:
            return
        text = "; ".join(
            f"{partition}: {one.blob} {one.reason}" for partition, one in list(contested.items())[:_NAMED]
        )
        more = f"; and {len(contested) - _NAMED} more" if len(contested) > _NAMED else ""
        raise EndpointError(
            f"The group {self._group!r} has no committed offset for "
            f"{counted(len(contested), 'partition')} whose mirror another program "
            f"has written ({text}{more}). A wrong position would skip or repeat records, so ehkafka does "
            f"not choose one. Commit a position: ehkafka offsets import commits the SDK's position, ehkafka "
            f"offsets reset any other. To begin at start= instead, set on_no_group_offsets='start'."
        )

    def _verified(
        self, found: dict[TopicPartition, Checkpoint]
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, str]]:
        """Return the positions whose logs are the same, and why that is not known of the others."""
        if not found:
            return {}, {}
        try:
            judgements = self._prove(found)
        except EndpointError as error:
            return {}, dict.fromkeys(found, str(error))
        for partition, (is_same, reason) in judgements.items():
            known = found[partition]
            if not is_same:
                raise EndpointError(
                    f"The group {self._group!r} has no committed offset for {partition}, and the mirrored "
                    f"offset {known.next_offset} belongs to another log: {ended(reason)} Beginning at that "
                    f"offset could skip records. To begin at start=, set on_no_group_offsets='start'; to "
                    f"begin elsewhere, commit an offset (ehkafka offsets reset)."
                )
            self._emit(
                MirrorUsed(partition, known.next_offset, known.written_at_ms, known.owner, proof=reason)
            )
        unproved = dict.fromkeys(found.keys() - judgements.keys(), _UNPROVED)
        return {partition: found[partition].next_offset for partition in judgements}, unproved


class MirrorRanges:
    """Finished records above a commit, from the mirror, for `Restore`."""

    name = "the mirror"

    def __init__(self, mirror: Mirror, emit: Callable[[Event], None]) -> None:
        self._mirror = mirror
        self._emit = emit
        # Of what was asked for last, where the commit's metadata do not say that it is ours.
        self._doubtful: dict[TopicPartition, bool | None] = {}

    def progress_at(
        self, commits: Mapping[TopicPartition, GroupCommit]
    ) -> Mapping[TopicPartition, Checkpoint]:
        """Return what the mirror has for these very commits; nothing while its store is down.

        Called by the poll thread inside an assign callback: bounded in time. The first ones matter most.
        """
        self._doubtful = {one: at.is_ours for one, at in commits.items() if at.is_ours is not True}
        asked = [partition for partition, at in commits.items() if at.is_ours is not False]
        if not asked or self._mirror.is_down:
            return {}
        # The mirror's own thread tells of its store; without the ranges some records are repeated.
        found = self._mirror.lookup(asked, RESTORE_S)
        known = {partition: one for partition, one in found.items() if isinstance(one, Checkpoint)}
        return {
            partition: one
            for partition, one in known.items()
            if self._counts(partition, one, commits[partition])
        }

    def is_ours(self, partition: TopicPartition) -> bool | None:
        """Return once whose commit a partition begins at, as it was asked for last; see `GroupCommit`."""
        return self._doubtful.pop(partition, True)

    def _counts(self, partition: TopicPartition, known: Checkpoint, commit: GroupCommit) -> bool:
        if is_copy(known, commit.next_offset, is_ours=commit.is_ours):
            return True
        if known.next_offset == commit.next_offset and known.finished:
            self._emit(ProgressIgnored(partition, known.next_offset, _BARE, self.name))
        return False


def mirror_evidence(
    mirror: Mirror, commits: Mapping[TopicPartition, int]
) -> Mapping[TopicPartition, LogFacts]:
    """Return what the logs of commits that say nothing themselves are recognised by, for `PositionFinder`.

    Of those whose mirror is of this commit or behind it. A mirror that is ahead of the commit, or whose own
    commits had metadata, was not written for it: an operator has moved the group, and means the log of then.
    """
    if mirror.is_down:
        return {}
    # The mirror's own thread tells of its store. What is not known disproves nothing.
    found = mirror.lookup(list(commits), RESTORE_S)
    return {
        partition: known.facts
        for partition, known in found.items()
        if isinstance(known, Checkpoint)
        and known.next_offset <= commits[partition]
        and is_copy(known, known.next_offset, is_ours=None)
    }


def _waits(reason: str) -> str:
    return (
        f"the partition has no committed offset, and the mirror does not answer: {ended(reason)} To begin "
        f"at start= without the mirror, set on_no_group_offsets='start'."
    )
