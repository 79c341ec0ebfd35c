"""Where a partition begins whose group has no commit: at the mirror, at `start`, or nowhere.

On the poll thread, inside the assign callback; waits for the store and the broker, for a bounded time. The
mirror is never asked where the group has a commit, so an operator's rewind is never undone. What it says is
believed for the same log alone. When it cannot be asked the app ends: to begin at `start` instead could
skip what was never handled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ehkafka.checkpoints.checkpoint import Checkpoint
from ehkafka.checkpoints.mirror.copied import is_copy
from ehkafka.checkpoints.mirror.foreign import Foreign
from ehkafka.checkpoints.stores.store import StoreError, StoreUnavailableError
from ehkafka.errors import EndpointError
from ehkafka.events import ProgressIgnored
from ehkafka.events.mirror import MirrorUsed
from ehkafka.positions.without_commit import WithoutCommit
from ehkafka.progress.metadata import LogFacts
from ehkafka.progress.position import Progress
from ehkafka.wording import counted, ended

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ehkafka.events import Event
    from ehkafka.positions.restore import GroupCommit
    from ehkafka.positions.same_log import Judgement
    from ehkafka.records import TopicPartition
    from ehkafka.settings import OnNoGroupOffsets

    # Whether logs are still those of our mirror's checkpoints. Raises `EndpointError`.
    Prove = Callable[[Mapping[TopicPartition, Checkpoint]], Mapping[TopicPartition, Judgement]]

LOOKUP_S = 10.0
LOOKUP_TRIES = 3
# What is finished above a commit only spares repeats: not worth holding up an assignment for long.
RESTORE_S = 2.0
_NAMED = 10
_BARE = "the group's commit has no metadata as ours had there, so somebody else has put the group there"
_STEP = "Fix that, or set on_no_group_offsets='start' to begin where start= says."


class Lookup(Protocol):
    """The mirror, as far as the poll thread asks it."""

    def lookup(
        self, partitions: Sequence[TopicPartition], timeout_s: float, *, partial: bool = False
    ) -> Mapping[TopicPartition, Checkpoint | Foreign | None]:
        """Return what the mirror has; with `partial`, of as many as the time is enough for.

        Raises `StoreError`.
        """
        ...

    @property
    def is_down(self) -> bool:
        """Whether the store did not answer the last time."""
        ...


class MirrorStart(WithoutCommit):
    """Finds starts for partitions without a commit, in the mirror if the policy wants that."""

    def __init__(
        self,
        policy: OnNoGroupOffsets,
        *,
        group: str,
        emit: Callable[[Event], None],
        mirror: Lookup,
        prove: Prove,
    ) -> None:
        super().__init__(policy, group=group)
        self._emit = emit
        self._mirror = mirror
        self._prove = prove
        # What `find` looked up last: `facts` need not look again.
        self._found_in_mirror: Mapping[TopicPartition, Checkpoint | Foreign | None] = {}

    def find(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the next_offsets of those that begin at the mirror. Raises `EndpointError`."""
        super().find(partitions)
        if not partitions or self._policy != "mirror":
            return {}
        found_in_mirror = self._found_in_mirror = self._lookup(partitions)
        self._refuse_contested(found_in_mirror)
        found = {
            partition: known for partition, known in found_in_mirror.items() if isinstance(known, Checkpoint)
        }
        return self._verified(found) if found else {}

    def facts(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, LogFacts]:
        """Return what the mirror knows of the log and the group. Raises `EndpointError`."""
        if not partitions or self._policy != "mirror":
            return {}
        unseen = [partition for partition in partitions if partition not in self._found_in_mirror]
        found_in_mirror = {**self._found_in_mirror, **(self._lookup(unseen) if unseen else {})}
        return {
            partition: LogFacts(known.first_partitions, known.topic_id, known.anchor, known.reset)
            for partition in partitions
            if isinstance(known := found_in_mirror.get(partition), Checkpoint)
        }

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
            f"{counted(len(contested), 'partition')} whose mirror "
            f"somebody else has written ({text}{more}). Whichever is wrong would skip or repeat records, and "
            "start= does not decide. Commit where to begin: ehkafka offsets import takes the SDK's position, "
            "ehkafka offsets reset any other. Or set on_no_group_offsets='start'."
        )

    def _lookup(
        self, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, Checkpoint | Foreign | None]:
        for tries_left in reversed(range(LOOKUP_TRIES)):
            try:
                return self._mirror.lookup(partitions, LOOKUP_S)
            except StoreError as error:
                if tries_left and isinstance(error, StoreUnavailableError):
                    continue
                raise EndpointError(
                    f"The group {self._group!r} has no committed offset for "
                    f"{counted(len(partitions), 'partition')}, "
                    f"and the mirror could not be asked: {error} {_STEP}"
                ) from error
        raise AssertionError("unreachable: the last try returns or raises")

    def _verified(self, found: dict[TopicPartition, Checkpoint]) -> dict[TopicPartition, int]:
        for partition, (is_same, reason) in self._prove(found).items():
            known = found[partition]
            if not is_same:
                raise EndpointError(
                    f"The group {self._group!r} has no committed offset for {partition}, and its mirror at "
                    f"{known.next_offset} is of another log: {ended(reason)} To begin there could skip "
                    "records. "
                    "Set on_no_group_offsets='start' to begin where start= says, or commit where to begin "
                    "(ehkafka offsets reset)."
                )
            self._emit(
                MirrorUsed(partition, known.next_offset, known.written_at_ms, known.owner, proof=reason)
            )
        return {partition: known.next_offset for partition, known in found.items()}


class MirrorRanges:
    """What the mirror knows of finished records above a commit, for `Restore`."""

    name = "the mirror"

    def __init__(self, mirror: Lookup, emit: Callable[[Event], None]) -> None:
        self._mirror = mirror
        self._emit = emit
        # Of what was asked for last, where the commit's metadata do not say that it is ours.
        self._doubtful: dict[TopicPartition, bool | None] = {}

    def progress_at(self, commits: Mapping[TopicPartition, GroupCommit]) -> Mapping[TopicPartition, Progress]:
        """Return what the mirror has for these very commits; nothing while its store is down."""
        self._doubtful = {one: at.is_ours for one, at in commits.items() if at.is_ours is not True}
        asked = [partition for partition, at in commits.items() if at.is_ours is not False]
        if not asked or self._mirror.is_down:
            return {}
        try:
            found = self._mirror.lookup(asked, RESTORE_S, partial=True)
        except StoreError:
            # The mirror's own thread tells of its store; without the ranges some records are repeated.
            return {}
        known = {partition: one for partition, one in found.items() if isinstance(one, Checkpoint)}
        return {
            partition: _progress(one)
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


class MirrorEvidence:
    """What the mirror knows of the logs of commits that say nothing themselves, for `PositionFinder`."""

    def __init__(self, mirror: Lookup) -> None:
        self._mirror = mirror

    def facts(self, commits: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, LogFacts]:
        """Return what their logs are recognised by, of those whose mirror is of this commit or behind it.

        A mirror that is ahead of the commit, or whose own commits had metadata, was not written for it:
        somebody has moved the group, and means the log of then.
        """
        if self._mirror.is_down:
            return {}
        try:
            found = self._mirror.lookup(list(commits), RESTORE_S, partial=True)
        except StoreError:
            # The mirror's own thread tells of its store. What is not known disproves nothing.
            return {}
        return {
            partition: LogFacts(known.first_partitions, known.topic_id, known.anchor, known.reset)
            for partition, known in found.items()
            if isinstance(known, Checkpoint)
            and known.next_offset <= commits[partition]
            and is_copy(known, known.next_offset, is_ours=None)
        }


def _progress(known: Checkpoint) -> Progress:
    return Progress(
        known.next_offset,
        known.leader_epoch,
        known.finished,
        known.last_timestamp_ms,
        known.anchor,
        known.finished_leader_epoch,
    )
