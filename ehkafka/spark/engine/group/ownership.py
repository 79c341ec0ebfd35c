"""One run's hold on its group: reads the group's commits again and again, and says who else commits there.

On the driver: `claim`'s part in the thread that starts the query, later in the one that follows it. It asks
the broker for a bounded time and commits nothing itself.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.endpoint.client import describe_error
from ehkafka.errors import GroupInUseError
from ehkafka.events import ConnectionProblem
from ehkafka.records import TopicPartition
from ehkafka.spark.engine.group.judge import Claim, Commit, moved_since
from ehkafka.spark.engine.group.marks import Mark

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from confluent_kafka import Consumer

    from ehkafka.events import Event
    from ehkafka.progress.ledger import CommitLedger, Position
    from ehkafka.spark.engine.group.judge import Ownership

    Positions = Mapping[TopicPartition, Position]

_LOG = logging.getLogger("ehkafka.spark")
# From one look at the group's commits to the next, and how long one may take: twice as long after each that
# failed, twice what it took after one that did not. It holds up the thread that has to notice a stop.
CHECK_S = 1.0
CHECK_TIMEOUT_S = 3.0
CHECK_TIMEOUT_MAX_S = 12.0
# What has to be committed is looked for sooner.
CHECK_AGAIN_S = 0.25
_NAMED = 3


class GroupWatch:
    """What a run knows of others in its group. One thread at a time."""

    def __init__(self, mark: Mark, found: Iterable[Mark], group: str, emit: Callable[[Event], None]) -> None:
        """`found` are the marks that stood there before; `group` names it for people."""
        self.mark = mark
        # Those that did not end in good order may still run.
        self.may_meet = sorted({one.run for one in found if not one.has_ended})
        self._claim = Claim(mark, frozenset(one.run for one in found))
        self._group = group
        self._emit = emit
        self._checked_s = float("-inf")
        # How long the next look may take.
        self.timeout_s = CHECK_TIMEOUT_S
        # Whether the last look was answered.
        self.has_seen = False
        # Set once: the group is somebody else's, and nothing is committed any more.
        self.lost: GroupInUseError | None = None

    def is_due(self, *, soon: bool) -> bool:
        """Tell whether it is time for a look; `soon`: something is to be committed."""
        return time.monotonic() >= self._checked_s + (CHECK_AGAIN_S if soon else CHECK_S)

    def settled(self) -> None:
        """Take the group as ours: from now on newcomers give way."""
        self._claim.is_new = False

    def refuse_moved(
        self, consumer: Consumer, before: Mapping[TopicPartition, Commit], starts: Positions
    ) -> bool:
        """Raise `GroupInUseError` where others have committed since `before` was read; False: no answer."""
        now = self._read(consumer, list(starts), self.timeout_s)
        if now is None:
            return False
        if moved := moved_since(before, now, starts, self.mark.run):
            raise self._moved_meanwhile(before, moved)
        return True

    def learn_marks(self, consumer: Consumer, ledger: CommitLedger, wanted: Positions) -> bool | None:
        """Find out from the first commit whether the broker gives marks back; None: it did not answer."""
        stored = _stored(ledger, wanted)
        if not any(position.metadata for position in stored.values()):
            self._claim.keeps_marks = False  # they are too long, or were refused
            return False
        found = self._read(consumer, list(stored), self.timeout_s)
        if found is None:
            return None
        self._claim.keeps_marks = all(
            Mark.read(commit.metadata) is not None
            for partition, commit in found.items()
            if commit.offset == stored[partition].next_offset
        )
        return self._claim.keeps_marks

    def check(
        self,
        consumer: Consumer,
        ledger: CommitLedger,
        wanted: Positions,
        timeout_s: float | None = None,
    ) -> frozenset[TopicPartition] | None:
        """Return the partitions to be committed anew; None: commit nothing until the next look.

        Only while no commit is under way. `wanted` is what is to be committed by now.
        """
        self._checked_s = time.monotonic()
        stored = _stored(ledger, wanted)
        found = self._read(consumer, list(stored), self.timeout_s if timeout_s is None else timeout_s)
        if found is None:
            return None
        ownership = self._claim.judge(found, stored, wanted)
        self._report(ownership, {one: stored[one].next_offset for one in ownership.moved})
        return ownership.again if ownership.may_commit else None

    def _read(
        self, consumer: Consumer, partitions: list[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, Commit] | None:
        if not partitions:
            return {}
        asked_s = time.monotonic()
        try:
            answers = consumer.committed([KafkaPartition(*one) for one in partitions], timeout=timeout_s)
            errors = [answer.error for answer in answers if answer.error is not None]
        except KafkaException as failed:
            answers, errors = [], [failed.args[0]]
        self.has_seen = not errors
        if errors:
            self.timeout_s = min(2 * self.timeout_s, CHECK_TIMEOUT_MAX_S)
            self._emit(ConnectionProblem(errors[0].name(), describe_error(errors[0]), fatal=False))
            return None
        # Else each second look at a slow broker would be given up.
        took_s = time.monotonic() - asked_s
        self.timeout_s = min(max(CHECK_TIMEOUT_S, 2 * took_s), CHECK_TIMEOUT_MAX_S)
        return {
            TopicPartition(one.topic, one.partition): Commit(one.offset, one.metadata or "")
            for one in answers
        }

    def _report(self, ownership: Ownership, ours: Mapping[TopicPartition, int]) -> None:
        if ownership.challenger is not None:
            _LOG.warning(
                "%s: another run on Spark, %s, has begun with it, while this one, %s, runs. This one "
                "continues, and the other one is refused.",
                self._group,
                ownership.challenger,
                self.mark.run,
            )
        if ownership.lost_to is not None:
            self.lost = self._in_use_by(ownership.lost_to)
        elif ownership.is_sure:
            self.lost = self._moved(ownership.moved, ours)

    def _in_use_by(self, other: str) -> GroupInUseError:
        return GroupInUseError(
            f"{self._group} is in use: another run on Spark, {other}, commits to it, so this one, "
            f"{self.mark.run}, ends. Two at a time would handle every record twice. Let one of them run, and "
            "give the other one a group of its own."
        )

    def _moved(
        self, moved: Mapping[TopicPartition, Commit], ours: Mapping[TopicPartition, int]
    ) -> GroupInUseError:
        shown = _listed(moved, lambda one: f"{ours[one]} by this run, now {moved[one].offset}")
        return GroupInUseError(
            f"{self._group} was moved by somebody else while Spark had it ({shown}): by a consumer "
            "that has joined it, by ehkafka offsets reset or another tool. The run ends and commits nothing "
            "over it. Start again to continue where the group stands now; over a checkpoint, with "
            "new_checkpoint=True or --new-checkpoint."
        )

    def _moved_meanwhile(
        self, before: Mapping[TopicPartition, Commit], moved: Mapping[TopicPartition, Commit]
    ) -> GroupInUseError:
        shown = _listed(moved, lambda one: f"{_offset(before.get(one))}, now {_offset(moved[one])}")
        marks = (Mark.read(commit.metadata) for commit in moved.values())
        others = sorted({mark.run for mark in marks if mark is not None})
        who = (
            f"another run on Spark ({others[0]})" if others else "a consumer, ehkafka offsets reset or a tool"
        )
        return GroupInUseError(
            f"{self._group} was moved while this run, {self.mark.run}, began ({shown}): by {who}. Nothing "
            "was started, and nothing is committed over it. See that nobody else has the group, and start "
            "again to continue where it stands then."
        )


def _stored(ledger: CommitLedger, wanted: Positions) -> dict[TopicPartition, Position]:
    known = {partition: ledger.acknowledged(partition) for partition in wanted}
    return {partition: position for partition, position in known.items() if position is not None}


def _listed(partitions: Collection[TopicPartition], text: Callable[[TopicPartition], str]) -> str:
    shown = ", ".join(f"{partition}: {text(partition)}" for partition in sorted(partitions)[:_NAMED])
    return shown + (f" and {len(partitions) - _NAMED} more" if len(partitions) > _NAMED else "")


def _offset(commit: Commit | None) -> int | str:
    return "none" if commit is None or commit.offset < 0 else commit.offset
