"""Gap repair: what becomes of a partition whose position turned out to be outside of its log.

On the poll thread, between two batches, never inside a callback. librdkafka has stopped fetching such a
partition and will not `seek` it (it answers `_STATE`); it goes on only when it is assigned anew. The group
knows nothing of that: the member keeps its partitions, and librdkafka keeps their pauses.

A gap ahead leaves the epoch as it is: the position jumps, the watermark follows as over a hole. A position
before the old one begins a new epoch, because offsets are received a second time; that waits
until what is left of the old log has its outcome, and its outputs are acknowledged. So does any position in
another log of the same name, which librdkafka would go on reading: such a partition is halted until then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.endpoint.client import describe_error
from ehkafka.events import ConnectionProblem
from ehkafka.positions.finder import Begin
from ehkafka.positions.gap import AnotherLog, Gap, LogBounds, go_on_at
from ehkafka.records import TopicPartition
from ehkafka.records.client_codes import ClientCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from confluent_kafka import Consumer

    from ehkafka.intake.context import IntakeContext
    from ehkafka.intake.membership import Membership
    from ehkafka.intake.unreadable import Halted
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.positions.log_asker import KnownLogs, Question
    from ehkafka.records import Message

# Between two tries while the broker does not answer or librdkafka refuses.
RETRY_S = 1.0


@dataclass(slots=True)
class _Stuck:
    """A partition that librdkafka does not fetch any more."""

    epoch: Epoch
    reason: str
    # librdkafka found other records where ours were: being in range proves nothing.
    truncated: bool
    # Where to go on, once that is decided.
    resume_at: int | None = None
    # `reason` says why the log is another one.
    is_another_log: bool = False


class GapRepair:
    """Brings partitions back that stopped at a gap, or ends the app, as `on_out_of_range` says."""

    def __init__(self, context: IntakeContext, membership: Membership) -> None:
        self._context = context
        self._membership = membership
        self._action = context.settings.on_out_of_range
        self._stuck: dict[TopicPartition, _Stuck] = {}
        self._not_before_s = 0.0
        # Where the logs begin and end of partitions whose way on is open.
        self._question: Question[KnownLogs] | None = None

    def note(self, error: KafkaError, message: Message) -> None:
        """Remember a partition that reported it. Its batch's records are not received yet: act later."""
        partition = TopicPartition(message.topic(), message.partition())
        owned = self._context.owned.get(partition)
        if owned is None or self._is_known(partition, owned.epoch):
            return
        # Not by the message's offset, which may be none.
        truncated = KafkaError(ClientCode.LOG_TRUNCATION).str() in error.str()
        if partition in self._stuck:
            self._question = None  # an answer of before: in between another member may have read on
        self._stuck[partition] = _Stuck(owned.epoch, describe_error(error), truncated=truncated)

    def _is_known(self, partition: TopicPartition, epoch: Epoch) -> bool:
        # Reported again because another one's repair had to assign it anew.
        known = self._stuck.get(partition)
        return known is not None and known.epoch is epoch

    def note_refused(self, partition: TopicPartition, reason: str) -> None:
        """Bring a partition back that librdkafka will not seek."""
        self._stuck.setdefault(
            partition, _Stuck(self._context.owned[partition].epoch, reason, truncated=False)
        )

    def note_another_log(self, consumer: Consumer, partition: TopicPartition, reason: str) -> None:
        """Read no more of a partition whose log is another one; `run` goes on in it where the policy says."""
        owned = self._context.owned[partition]
        known = self._stuck.get(partition)
        if known is not None and known.epoch is owned.epoch and known.is_another_log:
            return
        consumer.pause([KafkaPartition(*partition)])
        self._context.flow.forget(partition)
        # A question of before may be answered by the old log.
        self._question = None
        self._stuck[partition] = _Stuck(owned.epoch, reason, truncated=True, is_another_log=True)

    def halts(self, partition: TopicPartition) -> bool:
        """Tell whether a partition waits here for its old log's end: flow control must not resume it."""
        stuck = self._stuck.get(partition)
        return stuck is not None and stuck.is_another_log

    def run(self, consumer: Consumer, *, was_called: bool) -> None:
        """Bring back what can be. Once a turn, after its records were received; cheap without a gap.

        `was_called`: the client, in this turn. Else it may have queued a revoke in the time since, and it
        takes an incremental unassign for the answer to that: others would begin before what runs has ended.
        """
        if not self._stuck:
            return
        self._drop_what_left(consumer)
        if self._context.clock() >= self._not_before_s:
            self._decide(consumer)
            if was_called:
                self._resume(consumer)

    def _drop_what_left(self, consumer: Consumer) -> None:
        for partition, stuck in list(self._stuck.items()):
            owned = self._context.owned.get(partition)
            if owned is None or owned.epoch is not stuck.epoch:
                del self._stuck[partition]
                self._question = None  # as in `note`
                if stuck.is_another_log:
                    # Halted here, so librdkafka keeps it paused over its next assign.
                    self._membership.left_paused(consumer, partition)

    def _decide(self, consumer: Consumer) -> None:
        open_cases = [partition for partition, stuck in self._stuck.items() if stuck.resume_at is None]
        question, asker = self._question, self._context.brokers.asker
        assert asker is not None
        if question is None:
            self._question = asker.read_logs([open_cases]) if open_cases else None
            return
        if not question.done.is_set():
            return
        self._question = None
        for partition in open_cases:
            if (known := question.answer.logs.get(partition)) is not None and known.start is not None:
                wanted = _wanted(
                    consumer, self._stuck[partition].epoch, self._context.owned.unreadable.get(partition)
                )
                self._decide_one(partition, wanted, LogBounds(known.start, known.end))
        for problem in question.answer.problems.values():
            self._try_later("_AUTO_OFFSET_RESET", f"the start of the log is not known yet: {problem}")

    def _decide_one(self, partition: TopicPartition, wanted: int | None, log: LogBounds) -> None:
        stuck = self._stuck[partition]
        if stuck.is_another_log:
            self._go_on(AnotherLog(partition, wanted or 0, stuck.reason, log))
            return
        if wanted is None:
            wanted = log.start  # `earliest`, which moved on before it could be read
        if log.holds(wanted) and not stuck.truncated:
            # A leader that lagged, or a position that fell back meanwhile: there is no gap.
            stuck.resume_at = wanted
            if partition not in self._context.owned.unreadable:
                self._context.emit(ConnectionProblem("_AUTO_OFFSET_RESET", stuck.reason, fatal=False))
            return
        before = stuck.epoch.received.finished_before
        self._go_on(
            Gap(partition, wanted, log, () if before is None else tuple(before.above(wanted))), stuck.reason
        )

    def _go_on(self, gap: Gap | AnotherLog, *why: str) -> None:
        stuck, context = self._stuck[gap.partition], self._context
        stuck.resume_at = go_on_at(gap, self._action, context.emit, context.count)
        if stuck.resume_at is None:
            context.fatal(gap.error(*why))
            del self._stuck[gap.partition]

    def _resume(self, consumer: Consumer) -> None:
        ready = {p: stuck.resume_at for p, stuck in self._stuck.items() if self._may_resume(stuck)}
        if not ready:
            return
        for partition, offset in ready.items():
            assert offset is not None
            self._move(partition, offset)
        try:
            assign_anew(consumer, self._context, list(ready))
            self._membership.after_assign(consumer, list(ready))
        except KafkaException as refused:
            self._try_later(refused.args[0].name(), describe_error(refused.args[0]))
            return
        halted = [partition for partition in ready if self._stuck.pop(partition).is_another_log]
        if halted:
            consumer.resume([KafkaPartition(*partition) for partition in halted])

    def _may_resume(self, stuck: _Stuck) -> bool:
        if stuck.resume_at is None:
            return False
        if not (stuck.is_another_log or _is_back(stuck.epoch, stuck.resume_at)):
            return True
        # In this order: an output is put before its record ends.
        return not stuck.epoch.tally.unfinished_records and not self._has_outputs(stuck.epoch)

    def _has_outputs(self, epoch: Epoch) -> bool:
        """Tell whether outputs wait that the epoch's end would drop: their records are not received again."""
        delivery = self._context.delivery
        return delivery is not None and epoch in delivery.outputs.lowest()

    def _move(self, partition: TopicPartition, offset: int) -> None:
        route, epoch = self._context.owned[partition]
        if self._stuck[partition].is_another_log or _is_back(epoch, offset):
            self._membership.begin_anew(Begin(partition, offset))
            self._stuck[partition].epoch = self._context.owned[partition].epoch
        elif offset != epoch.received.next_offset:
            if self._context.history is not None:
                self._context.history.jumped(partition, epoch.number, offset)
            with route.hub.locked():
                epoch.received.skip_to(offset, self._context.clock())
            self._context.owned.saver.has_moved()

    def _try_later(self, code: str, problem: str) -> None:
        self._not_before_s = self._context.clock() + RETRY_S
        self._context.emit(ConnectionProblem(code, problem, fatal=False))


def _wanted(consumer: Consumer, epoch: Epoch, halted: Halted | None) -> int | None:
    """Return the offset to be read next, None when nothing was read since `earliest`.

    Not what librdkafka asked the broker for: a pause may have thrown away what it had fetched before.
    """
    if halted is not None:
        return halted.seek_to  # behind a batch that cannot be read the client's position may be anywhere
    if epoch.received.next_offset is None or epoch.received.batches.last is None:
        # The client's position may be of an earlier assignment, until it receives something of this one.
        return epoch.received.next_offset
    # It also knows of what was read and is no record, such as the marks of a transaction.
    return max(epoch.received.next_offset, consumer.position([KafkaPartition(*epoch.partition)])[0].offset)


def _is_back(epoch: Epoch, offset: int) -> bool:
    return epoch.received.next_offset is not None and offset < epoch.received.next_offset


def assign_anew(consumer: Consumer, context: IntakeContext, partitions: Sequence[TopicPartition]) -> None:
    """Let partitions of ours be read from the positions of their epochs. Raises `KafkaException`."""
    if context.settings.is_cooperative:
        consumer.incremental_unassign([KafkaPartition(*partition) for partition in partitions])
        consumer.incremental_assign([_position(context, context.owned[p].epoch) for p in partitions])
        return
    # The eager protocol knows only whole assignments: the others fetch again, from where they are.
    # Those that wait for where they begin stay with the client as well, paused.
    waiting = [KafkaPartition(*partition, OFFSET_BEGINNING) for partition in context.owned.waiting]
    consumer.assign([*(_position(context, epoch) for epoch in context.owned.epochs()), *waiting])


def _position(context: IntakeContext, epoch: Epoch) -> KafkaPartition:
    received_next = epoch.received.next_offset
    offset = OFFSET_BEGINNING if received_next is None else received_next
    leader_epoch = _leader_epoch(context, epoch)
    if leader_epoch is None:
        return KafkaPartition(*epoch.partition, offset)
    return KafkaPartition(*epoch.partition, offset, leader_epoch=leader_epoch)


def _leader_epoch(context: IntakeContext, epoch: Epoch) -> int | None:
    """Return that of the record before the position, by which the client notices a log that was cut."""
    if (mark := epoch.received.batches.last) is not None:
        return mark.leader_epoch
    # Nothing was received: it is where the group's commit is, unless it began elsewhere.
    committed = context.ledger.acknowledged(epoch.partition)
    if committed is None or committed.next_offset != epoch.received.next_offset:
        return None
    return committed.leader_epoch
