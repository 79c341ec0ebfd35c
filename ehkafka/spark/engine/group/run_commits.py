"""The commits of one run: the first, which takes the group, those of finished batches, and the last.

On the driver. `take` in the thread that starts the query, all else in the one that follows it. Each commit
comes right after a look at what the group has, so that a commit of another client is hardly ever overwritten.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ehkafka.checks.group import NOT_YET
from ehkafka.endpoint.client import describe_error
from ehkafka.errors import EndpointError, GroupInUseError
from ehkafka.offsets.group import LIVE
from ehkafka.progress.commit_transports import CommitError, classify
from ehkafka.progress.ledger import Position
from ehkafka.progress.metadata import NOTHING_KNOWN
from ehkafka.spark.engine.group.ownership import CHECK_TIMEOUT_S
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from confluent_kafka import Consumer, KafkaError

    from ehkafka.errors import EhkafkaError
    from ehkafka.intake.context import IntakeContext
    from ehkafka.progress.metadata import LogFacts
    from ehkafka.records import TopicPartition
    from ehkafka.spark.engine.group.ownership import Commit, GroupWatch
    from ehkafka.spark.engine.tasks.results import LastRecord
    from ehkafka.spark.source.offsets import StreamOffset

# A query is one epoch of all its partitions, but of those whose log is recreated meanwhile.
_EPOCH = 1
AGAIN_S = 0.2


class RunCommits:
    """What a run has committed and is to commit. Without tags where they would be too long."""

    def __init__(
        self, context: IntakeContext, consumer: Consumer, ownership: GroupWatch, *, whose: str, bytes_max: int
    ) -> None:
        """`whose` names the group for people; `bytes_max` is how long a commit's metadata may be."""
        self._context = context
        self._consumer = consumer
        self._ownership = ownership
        self._whose = whose
        self._bytes_max = bytes_max
        # What the last finished batch reached, by partition.
        self._positions: dict[TopicPartition, Position] = {}
        # What ended the commits for good; set on whichever thread calls back.
        self.fatal: EhkafkaError | None = None

    def take(
        self,
        starts: Mapping[TopicPartition, int],
        found: Mapping[TopicPartition, Commit],
        timeout_s: float,
        *,
        facts: Mapping[TopicPartition, LogFacts] | None = None,
    ) -> bool:
        """Commit where the query begins; tell whether the broker keeps the metadata of commits.

        `found` is what the group had when `starts` were chosen, `facts` what is known of its partitions.
        Raises `GroupInUseError` for a group with consumers or one that was moved since; `EndpointError`.
        """
        for partition, offset in starts.items():
            position = Position(_EPOCH, offset, facts=(facts or {}).get(partition, NOTHING_KNOWN))
            self._begin_epoch(partition, position, offset)
        self._commit_first(found, timeout_s)
        return self._answered(
            lambda: self._ownership.learn_tags(self._consumer, self._context.ledger, self._positions),
            time.monotonic() + timeout_s,
        )

    def note(self, ended: StreamOffset, lasts: Mapping[TopicPartition, LastRecord] | None) -> None:
        """Take where a finished batch ended; it is committed at the next tick, with its topics' ids.

        `lasts` are the last records that were handled, None where the query has read nothing since.
        """
        for partition, end in ended.positions.items():
            before = self._positions.get(partition)
            if before is None:  # the topic has grown
                self._begin_epoch(partition, Position(_EPOCH, end), None)
            elif is_another_log(before, partition, ended, is_batch=lasts is not None):
                facts = before.facts.of_no_log()
                self._begin_epoch(partition, Position(before.epoch + 1, end, facts=facts), None)
            elif end == before.next_offset:
                continue
            at = position_after(self._positions[partition], partition, ended, (lasts or {}).get(partition))
            self._positions[partition] = self._marked(at)

    def serve(self, timeout_s: float) -> None:
        """Let the client's callbacks through, look who else commits, and commit what is due."""
        self._listen(timeout_s)
        ledger = self._context.ledger
        if ledger.in_flight is not None or self.lost() is not None:
            return
        is_due = ledger.due(time.monotonic(), 0)
        if self._ownership.is_due(soon=is_due) and self._check() and is_due:
            self._context.committer.send(self._consumer, self._positions, 0)

    def _listen(self, timeout_s: float) -> None:
        self._consumer.consume(1, timeout_s)
        self._context.committer.take_answers()

    def lost(self) -> EhkafkaError | None:
        """Return why nothing more can be committed: another run has the group, or the broker denies it."""
        if self._ownership.lost is not None or self.fatal is not None:
            return self._ownership.lost or self.fatal
        committer = self._context.committer
        if committer.problem is None or committer.is_transient:
            return None
        return self._in_use(f"the broker refuses our commits ({committer.problem})")

    def finish(self, timeout_s: float) -> list[TopicPartition]:
        """Commit what the last batch reached; return the partitions whose commit is not known to be made."""
        ends_s = time.monotonic() + timeout_s
        ledger = self._context.ledger
        while self.lost() is None and ledger.dirty(self._positions):
            left_s = ends_s - time.monotonic()
            if left_s <= 0:
                break
            # A slow broker's answer is worth half of the time: the commit needs the other half.
            if ledger.in_flight is None and self._check(min(left_s, max(CHECK_TIMEOUT_S, left_s / 2))):
                left_s = max(0.1, ends_s - time.monotonic())
                self._context.committer.commit_now(self._consumer, self._positions, left_s)
            if ledger.dirty(self._positions):
                self._listen(min(max(0.0, ends_s - time.monotonic()), AGAIN_S))
        return [] if self._ownership.lost is not None else self._late()

    def stored(self) -> dict[TopicPartition, int]:
        """Return what the broker has stored of ours, by partition. Any thread."""
        known = {one: self._context.ledger.acknowledged(one) for one in self._positions.copy()}
        return {partition: position.next_offset for partition, position in known.items() if position}

    @property
    def problem(self) -> str | None:
        """What the last commit failed of; None since one was acknowledged."""
        return self._context.committer.problem

    def _begin_epoch(self, partition: TopicPartition, position: Position, committed: int | None) -> None:
        self._context.ledger.assigned(partition, position.epoch, None)
        self._context.begins.on_epoch_begin(partition, position.epoch, committed)
        facts = self._context.begins.positions.first_counts.completed(partition, position.facts)
        self._positions[partition] = self._marked(position._replace(facts=facts))

    def _marked(self, position: Position) -> Position:
        tag = self._ownership.tag
        if len(tag.text) > self._bytes_max:
            return position
        return position._replace(metadata=tag.text_at(position.next_offset, position.facts, self._bytes_max))

    def _commit_first(self, found: Mapping[TopicPartition, Commit], timeout_s: float) -> None:
        ends_s = time.monotonic() + timeout_s
        while True:
            # Before each try: until one succeeds any client may commit.
            self._answered(
                lambda: self._ownership.refuse_moved(self._consumer, found, self._positions), ends_s
            )
            ledger = self._context.ledger
            says_more = any(one.metadata for one in ledger.dirty(self._positions).values())
            refusal = self._refusal()
            if refusal is None:
                return
            if refusal.code() in LIVE:
                raise self._in_use(f"the broker refuses a commit from outside ({refusal.name()})")
            if self.fatal is not None:
                raise self.fatal
            if says_more and classify(refusal) is CommitError.METADATA:
                continue  # without it, at once
            if refusal.code() not in NOT_YET or time.monotonic() >= ends_s:
                raise EndpointError(
                    f"{self._whose}: where it begins could not be committed: "
                    f"{ended(describe_error(refusal))} "
                    "Nothing was started: look at the broker and the network, and start again."
                )
            time.sleep(AGAIN_S)

    def _refusal(self) -> KafkaError | None:
        error, answers = self._context.committer.commit_once(self._consumer, self._positions)
        reported = [error, *(answer.error for answer in answers)]
        return next((one for one in reported if one is not None), None)

    def _answered(self, ask: Callable[[], bool | None], ends_s: float) -> bool:
        """Look at the group's commits until the broker answers. Raises `EndpointError` after `ends_s`."""
        while (answer := ask()) is None:
            if time.monotonic() >= ends_s:
                raise EndpointError(
                    f"{self._whose}: the broker did not return the group's commits in time. Nothing was "
                    "started: look at the broker and the network, and start again."
                )
            self._consumer.consume(1, AGAIN_S)
        return answer

    def _check(self, timeout_s: float | None = None) -> bool:
        """Look who else commits; tell whether we may."""
        again = self._ownership.check(self._consumer, self._context.ledger, self._positions, timeout_s)
        for partition in again or ():
            self._context.ledger.assigned(partition, self._positions[partition].epoch, None)
        return again is not None

    def _late(self) -> list[TopicPartition]:
        late = []
        for partition, position in self._positions.items():
            stored = self._context.ledger.acknowledged(partition)
            if stored is None or stored.next_offset < position.next_offset:
                late.append(partition)
        return sorted(late)

    def _in_use(self, why: str) -> GroupInUseError:
        return in_use(self._whose, why)


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


def in_use(whose: str, why: str) -> GroupInUseError:
    """Return the error of a group that has consumers."""
    return GroupInUseError(
        f"{whose} is in use: {ended(why)} Two at a time would handle every record twice. Stop its "
        "consumers, wait "
        "until their session has ended, and start again."
    )


def with_step(error: EhkafkaError) -> EhkafkaError:
    """Return the error of commits that are refused for good, with what to do about it."""
    if type(error) is not EndpointError:
        return error
    return EndpointError(
        f"{str(error).rstrip('.')}. What was finished since the last commit is handled again. Let the app "
        "read with this group (Apache Kafka: an ACL for READ on the group and its topics; Event Hubs: the "
        "role Azure Event Hubs Data Receiver, or a key with Listen), and start again."
    )
