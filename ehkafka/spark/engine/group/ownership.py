"""Whether a group's commits are still those of the run that has it, by the tag in the text of each.

Kafka takes commits from outside of a group from any client, and none fails because another client has
committed. So a run reads the group's commits before its first one, before each later one and once a second,
and ends where one of them is not its own: the run that began last has the group. On the driver, in the thread
that starts the query and then in the one that follows it. It asks the broker for a bounded time and commits
nothing itself.
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

# From one look at the group's commits to the next, and how long one may take: it holds up the thread that has
# to notice a stop.
CHECK_S = 1.0
CHECK_TIMEOUT_S = 12.0
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


_NOTHING = Commit(-1, "")


class GroupWatch:
    """What a run knows of its group's commits. One thread at a time."""

    def __init__(
        self,
        tag: Tag,
        found: Mapping[TopicPartition, Commit],
        group: str,
        emit: Callable[[Event], None],
    ) -> None:
        """`found` is what the group had where the run begins; `group` names it for people."""
        self.tag = tag
        # What the group has, as far as it is found or ours.
        self._known = dict(found)
        self._before = {
            one.run for commit in found.values() if (one := Tag.read(commit.metadata)) is not None
        }
        self._group = group
        self._emit = emit
        self._checked_s = float("-inf")
        # Whether the broker gives tags back as they were written, known since the first commit. Else offsets
        # alone are compared.
        self.keeps_tags = True
        self._has_committed = False
        # Set once: the group was moved, and nothing is committed any more.
        self.lost: GroupInUseError | None = None

    def is_due(self, *, soon: bool) -> bool:
        """Tell whether it is time for a look; `soon`: something is to be committed."""
        return time.monotonic() >= self._checked_s + (CHECK_AGAIN_S if soon else CHECK_S)

    def check(
        self,
        consumer: Consumer,
        ledger: CommitLedger,
        wanted: Positions,
        timeout_s: float = CHECK_TIMEOUT_S,
    ) -> Collection[TopicPartition] | None:
        """Return the partitions to be committed anew; None: commit nothing until the next look.

        Only while no commit is under way. `wanted` is what is to be committed by now.
        """
        if self._has_committed:  # else the run has not begun, and looks once more before it does
            self._checked_s = time.monotonic()
        now = self._read(consumer, list(wanted), timeout_s)
        if now is None:
            return None
        stored = {p: at for p in wanted if (at := ledger.acknowledged(p)) is not None}
        self._known |= {p: Commit(at.next_offset, at.metadata or "") for p, at in stored.items()}
        if stored and not self._has_committed:
            self._has_committed, self.keeps_tags = True, self._are_tagged(stored, now)
        again = {p for p, commit in now.items() if self._is_late(commit, p)}
        moved = {
            p: commit
            for p, commit in now.items()
            if p not in again and not self._is_ours(commit, p, wanted[p])
        }
        if moved:
            self.lost = self._moved(moved)
            return None
        return again

    def _are_tagged(self, stored: Positions, now: Mapping[TopicPartition, Commit]) -> bool:
        """Tell whether the broker gives the tags of these commits back, if there were any."""
        found = [now[p] for p, at in stored.items() if now[p].offset == at.next_offset]
        # Where none was written they are too long, or were refused.
        return any(at.metadata for at in stored.values()) and all(Tag.read(one.metadata) for one in found)

    def _is_late(self, commit: Commit, partition: TopicPartition) -> bool:
        """Tell whether a commit has expired, is an older one of ours, or a late one of a run before ours."""
        known, tag = self._known.get(partition, _NOTHING), Tag.read(commit.metadata)
        if commit.offset < 0 or tag is None:
            return commit.offset < 0 <= known.offset
        if tag.run == self.tag.run:
            return commit.offset != known.offset
        # Before our first commit it is no late one: that run has gone on since we looked.
        return self._has_committed and tag.run in self._before

    def _is_ours(self, commit: Commit, partition: TopicPartition, wanted: Position) -> bool:
        """Tell whether a commit is ours, or takes nothing away: it stands where we found or left it.

        Where the run is to begin, but not later: a consumer that handles its records gets there, too.
        """
        known, tag = self._known.get(partition, _NOTHING), Tag.read(commit.metadata)
        if commit == known:
            return True
        if tag is not None:
            return tag.run == self.tag.run
        if self.keeps_tags:
            places = {known.offset} if self._has_committed else {known.offset, wanted.next_offset}
            return commit.offset in places and not commit.metadata
        # An answer may have been lost.
        return known.offset <= commit.offset <= wanted.next_offset

    def _read(
        self, consumer: Consumer, partitions: list[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, Commit] | None:
        try:
            found = commits_of(consumer, partitions, timeout_s)
        except KafkaException as failed:
            error = failed.args[0]
            self._emit(ConnectionProblem(error.name(), describe_error(error), fatal=False))
            return None
        commits = {p: Commit(at.offset, at.metadata or "") for p, at in found.items()}
        return dict.fromkeys(partitions, _NOTHING) | commits

    def _moved(self, moved: Mapping[TopicPartition, Commit]) -> GroupInUseError:
        tags = [Tag.read(commit.metadata) for commit in moved.values()]
        runs = sorted({tag.run for tag in tags if tag is not None})
        who = f"another run on Spark ({runs[0]})" if runs else "a consumer, ehkafka offsets reset or a tool"
        shown = names(
            f"{one}: {_shown(self._known.get(one, _NOTHING))}, now {_shown(moved[one])}"
            for one in sorted(moved)
        )
        return GroupInUseError(
            f"{self._group} was moved by {who} since this run, {self.tag.run}, read the commits ({shown}). "
            f"This run stops without a further commit, because two runs would handle every record twice. "
            f"Make sure that no other program uses the group, then start again: the run continues at the "
            "group's offsets. If the checkpoint has other offsets, give new_checkpoint=True or "
            "--new-checkpoint."
        )


def _shown(commit: Commit) -> str:
    return str(commit.offset) if commit.offset >= 0 else "none"
