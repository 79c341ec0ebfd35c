"""Whether a group's commits are still those of the run that has it, by the tag in the text of each.

Kafka takes commits from outside of a group from any client, and none fails because another client has
committed. So a run reads the group's commits before its first one, before each later one and once a second,
and ends where one of them is not its own: the run that began last has the group. On the driver:
`refuse_moved` and `learn_tags` in the thread that starts the query, `check` in the one that follows it. It
asks the broker for a bounded time and commits nothing itself.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple, Self

from confluent_kafka import KafkaException

from ehkafka.endpoint.client import describe_error
from ehkafka.errors import GroupInUseError
from ehkafka.events import ConnectionProblem
from ehkafka.positions.log_bounds import commits_of
from ehkafka.progress.metadata import NO_WORD, ON_SPARK, LogFacts, facts_word
from ehkafka.wording.line import names

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from confluent_kafka import Consumer

    from ehkafka.events import Event
    from ehkafka.progress.ledger import CommitLedger, Position
    from ehkafka.records import TopicPartition

    Positions = Mapping[TopicPartition, Position]

# From one look at the group's commits to the next, and how long one may take: twice as long after each that
# failed, twice what it took after one that did not. It holds up the thread that has to notice a stop.
CHECK_S = 1.0
CHECK_TIMEOUT_S = 3.0
CHECK_TIMEOUT_MAX_S = 12.0
# What has to be committed is looked for sooner.
CHECK_AGAIN_S = 0.25
_NONE = "-"


class Tag(NamedTuple):
    """A run's name; the name of its checkpoint, empty without one.

    Consumers read a tag as "nothing is finished above this commit". The facts of the log and the group stand
    before it and are carried on as every commit carries them.
    """

    run: str
    checkpoint: str = ""

    @property
    def text(self) -> str:
        """What is committed where no fact is known."""
        return f"{ON_SPARK}{NO_WORD}.{self._words}"

    def text_at(self, next_offset: int, facts: LogFacts, bytes_max: int) -> str:
        """Return what is committed with `next_offset`: the tag, and as many facts as fit with it."""
        room_bytes = bytes_max - len(ON_SPARK) - 1 - len(self._words)
        return f"{ON_SPARK}{facts_word(next_offset, facts, room_bytes)}.{self._words}"

    @classmethod
    def read(cls, text: str | None) -> Self | None:
        """Return the tag that a commit carries; None for anything else."""
        if text is None or not text.startswith(ON_SPARK):
            return None
        # A run's name may have dots of its own.
        words = text.removeprefix(ON_SPARK).split(".", 2)[1:]
        if len(words) != 2 or not all(words):
            return None
        return cls(words[1], "" if words[0] == _NONE else words[0])

    @property
    def _words(self) -> str:
        return f"{self.checkpoint or _NONE}.{self.run}"


class Commit(NamedTuple):
    """What the group has for a partition; the offset is negative where it has nothing."""

    offset: int
    metadata: str


class GroupWatch:
    """What a run knows of its group's commits. One thread at a time."""

    def __init__(self, tag: Tag, found: Collection[str], group: str, emit: Callable[[Event], None]) -> None:
        """`found` are the names of runs whose tags stood there before; `group` names it for people."""
        self.tag = tag
        self._before = found
        self._group = group
        self._emit = emit
        self._checked_s = float("-inf")
        # Whether the broker gives tags back as they were written. Else offsets alone are compared.
        self.keeps_tags = True
        # How long the next look may take.
        self.timeout_s = CHECK_TIMEOUT_S
        # Set once: the group was moved, and nothing is committed any more.
        self.lost: GroupInUseError | None = None

    def is_due(self, *, soon: bool) -> bool:
        """Tell whether it is time for a look; `soon`: something is to be committed."""
        return time.monotonic() >= self._checked_s + (CHECK_AGAIN_S if soon else CHECK_S)

    def refuse_moved(
        self, consumer: Consumer, before: Mapping[TopicPartition, Commit], starts: Positions
    ) -> bool | None:
        """Raise `GroupInUseError` where the group was moved since `before` was read; None: no answer.

        A commit without a tag where the run begins is not overwritten by what the run commits.
        """
        now = self._read(consumer, list(starts), self.timeout_s)
        if now is None:
            return None
        moved = {
            partition: commit
            for partition, commit in now.items()
            if not self._stood_there(commit, before.get(partition), starts[partition].next_offset)
        }
        if moved:
            raise self._moved(moved, {p: one.offset for p, one in before.items() if one.offset >= 0}, "began")
        return True

    def learn_tags(self, consumer: Consumer, ledger: CommitLedger, wanted: Positions) -> bool | None:
        """Find out from the first commit whether the broker gives tags back; None: it did not answer."""
        stored = _stored(ledger, wanted)
        # Else they are too long, or were refused.
        self.keeps_tags = any(position.metadata for position in stored.values())
        if not self.keeps_tags:
            return False
        found = self._read(consumer, list(stored), self.timeout_s)
        if found is None:
            return None
        self.keeps_tags = all(
            Tag.read(commit.metadata) is not None
            for partition, commit in found.items()
            if commit.offset == stored[partition].next_offset
        )
        return self.keeps_tags

    def check(
        self,
        consumer: Consumer,
        ledger: CommitLedger,
        wanted: Positions,
        timeout_s: float | None = None,
    ) -> Collection[TopicPartition] | None:
        """Return the partitions to be committed anew; None: commit nothing until the next look.

        Only while no commit is under way. `wanted` is what is to be committed by now.
        """
        self._checked_s = time.monotonic()
        stored = _stored(ledger, wanted)
        found = self._read(consumer, list(stored), self.timeout_s if timeout_s is None else timeout_s)
        if found is None:
            return None
        again = {p for p, commit in found.items() if self._is_late(commit, stored[p])}
        moved = {
            p: commit
            for p, commit in found.items()
            if p not in again and not self._is_ours(commit, stored[p], wanted[p])
        }
        if moved:
            self.lost = self._moved(moved, {p: stored[p].next_offset for p in moved}, "had it")
            return None
        return again

    def _stood_there(self, commit: Commit, before: Commit | None, start: int) -> bool:
        if commit == before or (before is None and commit.offset < 0):
            return True
        tag = Tag.read(commit.metadata)
        # Of our own a first commit may have been stored whose answer was lost.
        return commit.offset == start if tag is None else tag.run == self.tag.run

    def _is_late(self, commit: Commit, stored: Position) -> bool:
        """Tell whether a commit has expired, is an older one of ours, or a late one of a run before ours."""
        tag = Tag.read(commit.metadata)
        if commit.offset < 0 or tag is None:
            return commit.offset < 0
        if tag.run == self.tag.run:
            return commit.offset != stored.next_offset
        return tag.run in self._before

    def _is_ours(self, commit: Commit, stored: Position, wanted: Position) -> bool:
        tag = Tag.read(commit.metadata)
        if tag is not None:
            return tag.run == self.tag.run
        if self.keeps_tags:
            return commit.offset == stored.next_offset and not commit.metadata
        # An answer may have been lost.
        return stored.next_offset <= commit.offset <= wanted.next_offset

    def _read(
        self, consumer: Consumer, partitions: list[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, Commit] | None:
        asked_s = time.monotonic()
        try:
            found = commits_of(consumer, partitions, timeout_s)
        except KafkaException as failed:
            error = failed.args[0]
            self.timeout_s = min(2 * self.timeout_s, CHECK_TIMEOUT_MAX_S)
            self._emit(ConnectionProblem(error.name(), describe_error(error), fatal=False))
            return None
        # Else each second look at a slow broker would be given up.
        took_s = time.monotonic() - asked_s
        self.timeout_s = min(max(CHECK_TIMEOUT_S, 2 * took_s), CHECK_TIMEOUT_MAX_S)
        commits = {p: Commit(at.offset, at.metadata or "") for p, at in found.items()}
        return dict.fromkeys(partitions, Commit(-1, "")) | commits

    def _moved(
        self, moved: Mapping[TopicPartition, Commit], before: Mapping[TopicPartition, int], when: str
    ) -> GroupInUseError:
        tags = [Tag.read(commit.metadata) for commit in moved.values()]
        runs = sorted({tag.run for tag in tags if tag is not None})
        who = f"another run on Spark ({runs[0]})" if runs else "a consumer, ehkafka offsets reset or a tool"
        shown = names(
            f"{one}: {before.get(one, 'none')}, now {moved[one].offset if moved[one].offset >= 0 else 'none'}"
            for one in sorted(moved)
        )
        return GroupInUseError(
            f"{self._group} was moved by {who} while this run, {self.tag.run}, {when} ({shown}). This run "
            "ends and commits nothing over it: two runs would handle every record twice. Make sure that "
            "nothing else uses the group, and start again to continue where the group stands; over a "
            "checkpoint that stands elsewhere, with new_checkpoint=True or --new-checkpoint."
        )


def _stored(ledger: CommitLedger, wanted: Positions) -> dict[TopicPartition, Position]:
    known = {partition: ledger.acknowledged(partition) for partition in wanted}
    return {partition: position for partition, position in known.items() if position is not None}
