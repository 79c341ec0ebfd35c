"""The commits of one run for a group that it does not join: Kafka takes them while the group has no member.

On the driver, by one thread at a time. A plain query commits what it has read. An app on Spark takes the
group first, and looks before each commit who else has made some, so that one of another client is hardly
ever overwritten.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ehkafka.checks.group import NOT_YET
from ehkafka.checks.target import Target
from ehkafka.endpoint.client import describe_error
from ehkafka.errors import EndpointError, GroupInUseError
from ehkafka.offsets.group import LIVE
from ehkafka.offsets.members import members_of
from ehkafka.progress.commit_transports import CommitError, classify
from ehkafka.progress.ledger import Position
from ehkafka.progress.metadata import NOTHING_KNOWN
from ehkafka.spark.engine.group.ownership import CHECK_TIMEOUT_S
from ehkafka.wording import counted, ended
from ehkafka.wording.line import names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from confluent_kafka import Consumer, KafkaError

    from ehkafka.endpoint import Endpoint
    from ehkafka.errors import EhkafkaError
    from ehkafka.intake.context import EpochSetup
    from ehkafka.progress.committer import Committer
    from ehkafka.progress.ledger import CommitLedger
    from ehkafka.progress.metadata import LogFacts
    from ehkafka.records import TopicPartition
    from ehkafka.spark.engine.group.ownership import GroupWatch
    from ehkafka.spark.engine.tasks.results import LastRecord
    from ehkafka.spark.source.offsets import StreamOffset

AGAIN_S = 0.2


@dataclass(frozen=True, slots=True)
class CommittedGroup:
    """A group for which a run commits, as errors name it; `advice` ends those of one that is in use."""

    endpoint: Endpoint
    name: str
    advice: str = (
        "Two at a time would handle every record twice. Stop its consumers, wait until their session has "
        "ended, and start again."
    )

    def __str__(self) -> str:
        return f"The group {self.name!r} on {self.endpoint.name}"

    def in_use(self, why: str) -> GroupInUseError:
        """Return the error of a group that has consumers."""
        return GroupInUseError(f"{self} is in use: {ended(why)} {self.advice}")

    def refuse_members(self, topic: str, timeout_s: float) -> None:
        """Raise `GroupInUseError` where the broker tells of members; only a first commit is the proof."""
        members = members_of(Target(endpoint=self.endpoint, group=self.name), self.name, topic, timeout_s)
        if members:
            shown = names(member.name for member in members)
            raise self.in_use(f"it has {counted(len(members), 'member')}, {shown}")


class RunCommits:
    """What a run has committed and is to commit."""

    def __init__(
        self,
        ledger: CommitLedger,
        committer: Committer,
        consumer: Consumer,
        group: CommittedGroup,
        *,
        watch: GroupWatch | None = None,
        begins: EpochSetup | None = None,
        bytes_max: int = 0,
    ) -> None:
        """`watch` looks who else commits, and has the tag of the commits, in at most `bytes_max`.

        `begins` hears of epochs.
        """
        self._ledger = ledger
        self._committer = committer
        self._consumer = consumer
        self._group = group
        self._watch = watch
        self._begins = begins
        self._bytes_max = bytes_max
        # What the last finished batch reached, by partition. A log that was recreated is another epoch.
        self._positions: dict[TopicPartition, Position] = {}
        self._epochs = itertools.count(1)
        # What ended the commits for good; set on whichever thread calls back.
        self.fatal: EhkafkaError | None = None

    def take(
        self,
        starts: Mapping[TopicPartition, int],
        timeout_s: float,
        *,
        facts: Mapping[TopicPartition, LogFacts],
    ) -> None:
        """Commit where the query begins. `facts` are what is known of its partitions.

        Raises `GroupInUseError` for a group with consumers or one that was moved since `starts` were chosen;
        `EndpointError`.
        """
        for partition, offset in starts.items():
            position = Position(0, offset, facts=facts.get(partition, NOTHING_KNOWN))
            self._begin_epoch(partition, position, offset)
        self._commit_first(time.monotonic() + timeout_s)
        self._await_check(time.monotonic() + timeout_s)

    def note(self, ended: StreamOffset, lasts: Mapping[TopicPartition, LastRecord] | None) -> None:
        """Take where a finished batch ended; it is committed at the next tick, with its topics' ids.

        `lasts` are the last records that were handled, None where the query has read nothing since.
        """
        for gone in self._positions.keys() - ended.positions.keys() if ended.positions else ():
            # A broker would refuse it each time.
            del self._positions[gone]
        for partition, end in ended.positions.items():
            before = self._positions.get(partition)
            if before is None:  # the topic has grown
                self._begin_epoch(partition, Position(0, end), None)
            elif is_another_log(before, partition, ended, is_batch=lasts is not None):
                self._begin_epoch(partition, Position(0, end, facts=before.facts.of_no_log()), None)
            elif end == before.next_offset:
                continue
            at = position_after(self._positions[partition], partition, ended, (lasts or {}).get(partition))
            self._positions[partition] = self._marked(at)

    def serve(self, timeout_s: float) -> None:
        """Let the client's callbacks through, look who else commits, and commit what is due."""
        self._listen(timeout_s)
        if self._ledger.in_flight is not None or self.lost() is not None:
            return
        is_due = self._ledger.due(time.monotonic(), 0)
        is_time = is_due if self._watch is None else self._watch.is_due(soon=is_due)
        if is_time and self._check(CHECK_TIMEOUT_S) and is_due:
            self._committer.send(self._consumer, self._positions, 0)

    def lost(self) -> EhkafkaError | None:
        """Return why nothing more can be committed: another run has the group, or the broker denies it."""
        lost = self.fatal if self._watch is None else self._watch.lost or self.fatal
        if lost is not None or self.problem is None or self._committer.is_transient:
            return lost
        return self._group.in_use(
            f"the broker refuses commits of a client that is not a member ({self.problem})"
        )

    def commit_now(self, timeout_s: float) -> None:
        """Commit what is not committed, and wait for the answer."""
        self._committer.commit_now(self._consumer, self._positions, timeout_s)

    def finish(self, timeout_s: float) -> list[TopicPartition]:
        """Commit what the last batch reached; return the partitions whose commit is not known to be made."""
        ends_s = time.monotonic() + timeout_s
        while self.lost() is None and self.is_dirty:
            left_s = ends_s - time.monotonic()
            if left_s <= 0:
                break
            # One that is under way could come after this one, and take it back. The answer to a look may take
            # half of the time: the commit needs the other half.
            if self._ledger.in_flight is None and self._check(left_s / 2):
                self.commit_now(max(0.1, ends_s - time.monotonic()))
            if self.is_dirty:
                self._listen(min(max(0.0, ends_s - time.monotonic()), AGAIN_S))
        return [] if self._watch is not None and self._watch.lost is not None else self._late()

    def stored(self) -> dict[TopicPartition, int]:
        """Return what the broker has stored of ours, by partition. Any thread."""
        known = {one: self._ledger.acknowledged(one) for one in self._positions.copy()}
        return {partition: position.next_offset for partition, position in known.items() if position}

    @property
    def is_dirty(self) -> bool:
        """Whether there is something to commit."""
        return bool(self._ledger.dirty(self._positions))

    @property
    def problem(self) -> str | None:
        """What the last commit failed of; None since one was acknowledged."""
        return self._committer.problem

    def _listen(self, timeout_s: float) -> None:
        self._consumer.consume(1, timeout_s)
        self._committer.take_answers()

    def _begin_epoch(self, partition: TopicPartition, position: Position, committed: int | None) -> None:
        position = position._replace(epoch=next(self._epochs))
        self._ledger.assigned(partition, position.epoch, None)
        if self._begins is not None:
            self._begins.on_epoch_begin(partition, position.epoch, committed)
            facts = self._begins.positions.first_counts.completed(partition, position.facts)
            position = position._replace(facts=facts)
        self._positions[partition] = self._marked(position)

    def _marked(self, position: Position) -> Position:
        tag = None if self._watch is None else self._watch.tag
        if tag is None or len(tag.text) > self._bytes_max:
            return position
        return position._replace(metadata=tag.text_at(position.next_offset, position.facts, self._bytes_max))

    def _commit_first(self, ends_s: float) -> None:
        while True:
            # Before each try: until one succeeds any client may commit.
            self._await_check(ends_s)
            says_more = any(one.metadata for one in self._ledger.dirty(self._positions).values())
            refusal = self._refusal()
            if refusal is None:
                return
            if refusal.code() in LIVE:
                raise self._group.in_use(
                    f"the broker refuses commits of a client that is not a member ({refusal.name()})"
                )
            if self.fatal is not None:
                raise self.fatal
            if says_more and classify(refusal) is CommitError.METADATA:
                continue  # without it, at once
            if refusal.code() not in NOT_YET or time.monotonic() >= ends_s:
                raise EndpointError(
                    f"{self._group}: the start offsets could not be committed: "
                    f"{ended(describe_error(refusal))} Nothing was started: check the broker and the "
                    f"network, then start again."
                )
            time.sleep(AGAIN_S)

    def _refusal(self) -> KafkaError | None:
        error, answers = self._committer.commit_once(self._consumer, self._positions)
        reported = [error, *(answer.error for answer in answers)]
        return next((one for one in reported if one is not None), None)

    def _await_check(self, ends_s: float) -> None:
        """Look at the group's commits until the broker answers.

        Raises `GroupInUseError` for a group that was moved, `EndpointError` after `ends_s`.
        """
        assert self._watch is not None
        while self._watch.check(self._consumer, self._ledger, self._positions) is None:
            if self._watch.lost is not None:
                raise self._watch.lost
            if time.monotonic() >= ends_s:
                raise EndpointError(
                    f"{self._group}: the broker did not return the group's commits in time. Nothing was "
                    f"started: check the broker and the network, then start again."
                )
            self._consumer.consume(1, AGAIN_S)

    def _check(self, timeout_s: float) -> bool:
        """Look who else commits; tell whether we may."""
        if self._watch is None:
            return True
        again = self._watch.check(self._consumer, self._ledger, self._positions, timeout_s)
        for partition in again or ():
            self._ledger.assigned(partition, self._positions[partition].epoch, None)
        return again is not None

    def _late(self) -> list[TopicPartition]:
        late = []
        for partition, position in self._positions.items():
            stored = self._ledger.acknowledged(partition)
            if stored is None or stored.next_offset < position.next_offset:
                late.append(partition)
        return sorted(late)


def is_another_log(
    before: Position, partition: TopicPartition, ended: StreamOffset, *, is_batch: bool
) -> bool:
    """Tell whether a batch has begun another log with its beginning, or ended before the one before; once."""
    if ended.positions[partition] < before.next_offset:
        return True
    begun = ended.anew.get(partition)
    if begun is None:
        return False
    topic_id = ended.topic_ids.get(partition.topic)
    if topic_id is not None:
        return before.facts.topic_id != topic_id
    # An idle query tells its last batch's end again; and retention alone never moves a position back.
    return is_batch and begun < before.next_offset


def position_after(
    before: Position, partition: TopicPartition, ended: StreamOffset, last: LastRecord | None
) -> Position:
    """Return where a partition stands after a batch, and what its commit says of the log."""
    topic_id, end = ended.topic_ids.get(partition.topic), ended.positions[partition]
    # Another id than was known, and no new beginning: the next start is to find the commit disproved.
    facts = before.facts._replace(topic_id=before.facts.topic_id or topic_id)
    handled = None if last is None or last.timestamp_ms is None else (last.offset, last.timestamp_ms)
    if facts.topic_id is None:
        # What was handled may be of a new log already: what a look of the source has proved goes first.
        witness = ended.witnesses.get(partition) or facts.witness or handled
    else:
        witness = handled or facts.witness
    # A commit carries the epoch of the very record before it.
    is_before = last is not None and last.offset == end - 1
    epoch = last.leader_epoch if last is not None and is_before else None
    return before._replace(next_offset=end, leader_epoch=epoch, facts=facts._replace(witness=witness))
