"""Membership: what happens when the group gives partitions to this process or takes them away.

On the poll thread, inside `consume()`: librdkafka waits while these callbacks run, heartbeats go on. An
exception must never escape into librdkafka, which would drop the batch it was about to return; it is
handed to `fatal` instead, and the poll loop ends with it.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import OFFSET_BEGINNING
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.errors import EhkafkaError, EngineError
from ehkafka.events import PartitionAssigned, PartitionLost, PartitionRevoked
from ehkafka.intake.owned import OwnedPartition, OwnedPartitions
from ehkafka.positions.restore import stored
from ehkafka.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from confluent_kafka import Consumer

    from ehkafka.events import Event
    from ehkafka.intake.context import IntakeContext
    from ehkafka.intake.hook_threads import HookCall
    from ehkafka.intake.route import Route
    from ehkafka.lanes.ending import Work
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.positions.finder import Begin
    from ehkafka.positions.restore import Restored
    from ehkafka.progress.ledger import Position
    from ehkafka.progress.saving import Sample

DRAIN_CHECK_S = 1e-3
REBALANCED = "while the group rebalanced"
LOST = "the group continued without this member"
# What the hooks of a revoke get at least.
HOOKS_S = 1.0
# Between two looks whether what a drain has to finish still fits into its time, and what they may take of it.
CUT_AGAIN_S = 0.1
CUT_SHARE = 0.05
# What the end of an epoch waits at least until nothing more is sent for it: answers to what is on the wire.
OUTPUTS_END_S = 0.5


class Released(NamedTuple):
    """The commits of released partitions, and the partitions whose last positions are not committed."""

    uncommitted: list[TopicPartition]
    committed: dict[TopicPartition, Position | None]
    returned_records: int


class Membership:
    """Begins and ends epochs. Poll thread only."""

    def __init__(
        self,
        context: IntakeContext,
        routes: Mapping[str, Route],
        watch: Callable[[], object],
        on_assigned: Callable[[Consumer, Sequence[TopicPartition]], None] = lambda _consumer, _names: None,
    ) -> None:
        """`routes` by topic; `watch` is the poll loop's own watch, run while a drain waits.

        `on_assigned` gets the partitions that the client was just given, before it consumes.
        """
        self._context = context
        self._routes = routes
        self._watch = watch
        self._on_assigned = on_assigned
        # Filled and emptied here alone, on the poll thread. It changes size at a rebalance, so another thread
        # may look one partition up but never iterate over it.
        self.owned: OwnedPartitions = context.owned
        # Whether one of librdkafka's callbacks runs, during which the loop does not come round. Any thread
        # reads it.
        self.is_in_callback = False
        # When a drain that goes on is to be cut again.
        self.cut_again_s = 0.0
        # What is revoked while a stop drains, which reports it; None before.
        self.revoked: list[Released] | None = None
        # Partitions that went while their last positions were not committed, and why. A stop clears it before
        # its drain, and names the others.
        self.unsaved: dict[TopicPartition, str | None] = {}
        # Ended while paused: librdkafka keeps that over the next assign.
        self._left_paused: set[TopicPartition] = set()

    def on_assign(self, consumer: Consumer, partitions: list[KafkaPartition]) -> None:
        """Begin an epoch for each new partition, at the group's commit or at the start position."""
        self._context.count("rebalances_assigned", 1)
        self.guard(REBALANCED, lambda: self._assign(consumer, partitions))

    def on_revoke(self, consumer: Consumer, partitions: list[KafkaPartition]) -> None:
        """Drain within the budget, commit, and end the epochs. librdkafka unassigns afterwards."""
        self._context.count("rebalances_revoked", 1)
        names = [TopicPartition(p.topic, p.partition) for p in partitions]
        self._stop_waiting(names)
        self.guard(REBALANCED, lambda: self._revoke(consumer, names))

    def _revoke(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        released = self.release(
            consumer, partitions, reason="revoked", drain_s=self._context.settings.drain_s
        )
        self.unsaved.update(dict.fromkeys(released.uncommitted, self._context.committer.problem))
        if self.revoked is not None:
            self.revoked.append(released)

    def on_lost(self, _consumer: Consumer, partitions: list[KafkaPartition]) -> None:
        """End the epochs at once: another member may own the partitions already, so commit nothing."""
        self._context.count("rebalances_lost", 1)
        names = [TopicPartition(p.topic, p.partition) for p in partitions]
        self._stop_waiting(names)
        self.guard(REBALANCED, lambda: self._end_lost(names))

    def release(
        self,
        consumer: Consumer,
        partitions: Iterable[TopicPartition],
        *,
        reason: str,
        drain_s: float,
        commit_s: float | None = None,
        hooks_end_s: float = 0.0,
    ) -> Released:
        """End epochs in good order: cut, wait for what must end, commit, tell the user's hooks.

        `commit_s` bounds the commit (0: send none); None inside a rebalance callback, where
        librdkafka alone can. Hooks get until `hooks_end_s`, but a second at least. Returns what is committed
        then, and of which partitions the last position is not.
        """
        # In this order: start nothing new, drain, fix positions, commit; hooks last, since they close things.
        # In a revoke, Kafka accepts the commit until the member joins the next generation, which librdkafka
        # does afterwards (`ClassicGroup.validateOffsetCommit`), and at most for `max.poll.interval.ms`.
        deadline_s = self._context.clock() + drain_s
        ours = [partition for partition in partitions if partition in self.owned]
        ends_s = deadline_s if drain_s > 0 else None
        self.cut(ours, ends_s)
        self._wait_until_drained(ours, deadline_s, ends_s)
        committer, delivery = self._context.committer, self._context.delivery
        if commit_s != 0.0 and not committer.settle(commit_s):
            commit_s = 0.0  # it could take back what is committed before it
        positions, returned = self._end(ours)
        if delivery is not None and not delivery.is_exactly_once:
            self._end_outputs(ours, deadline_s)
        # Inside a callback this thread holds the client: no helper thread could commit meanwhile.
        if commit_s is None or commit_s > 0.0:
            committer.commit_now(consumer, positions, commit_s)
        if delivery is not None and delivery.is_exactly_once:
            self._end_outputs(ours, deadline_s)
        ledger = self._context.ledger
        released = Released(
            list(ledger.missing(positions)),
            {partition: ledger.acknowledged(partition) for partition in ours},
            sum(returned.values()),
        )
        hooks = [hook for one in ours for hook in self._revoked(one, returned[one], reason, reason)]
        self._context.brokers.contact.note_gone(len(ours), left=len(self.owned), lost=False)
        hooks_end_s = max(deadline_s, hooks_end_s, self._context.clock() + HOOKS_S)
        self._context.hook_threads.wait(hooks, hooks_end_s, self._context.exit_now)
        return released

    def cut(self, partitions: Iterable[TopicPartition], ends_s: float | None) -> bool:
        """Start nothing more but what lies below the highest started offsets, if that fits until `ends_s`.

        False where only what runs now ends, as without `ends_s`. May be asked again while a drain goes on.
        """
        # All limits of a route are set in one hold of its lock: with keys that partitions share, the first
        # cut would else let another partition's record start.
        began_s = self._context.clock()
        finishes = True
        for route, epochs in self.owned.by_route(partitions).values():
            with route.hub.locked() as inboxes:
                finishes &= inboxes.ending.drain(epochs, self._fits_until(route, ends_s))
        ended_s = self._context.clock()
        self.cut_again_s = ended_s + max(CUT_AGAIN_S, (ended_s - began_s) / CUT_SHARE)
        return finishes

    def _fits_until(self, route: Route, ends_s: float | None) -> Callable[[Work], bool] | None:
        """Return what tells whether a route's workers finish so much until then; None without a time."""
        if ends_s is None:
            return None
        clock = self._context.clock
        return lambda work: route.hub.needs_s(work, route.workers.size) <= ends_s - clock()

    def _wait_until_drained(
        self, partitions: Iterable[TopicPartition], deadline_s: float, ends_s: float | None
    ) -> None:
        """Watch until nothing of these partitions runs or may still run, or the deadline or a leave comes."""
        waiting = list(partitions)
        while waiting:
            # `consume()` is not entered while this waits: records behind slow ones, and retries that are due,
            # are seen to by this call or not at all.
            self._watch()
            # Records fail and estimates err: what seemed to fit is counted again.
            if ends_s is not None and self._context.clock() >= self.cut_again_s:
                self.cut(waiting, ends_s)
            waiting = self._undrained(waiting)
            if not waiting or self._context.exit_now() or self._context.clock() >= deadline_s:
                break
            time.sleep(DRAIN_CHECK_S)

    def _undrained(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Return those of which something runs or may still start, or outputs wait."""
        waiting: list[TopicPartition] = []
        left: set[Epoch] = set()
        for route, epochs in self.owned.by_route(partitions).values():
            with route.hub.locked() as inboxes:
                undrained = inboxes.ending.undrained(epochs)
            waiting += [epoch.partition for epoch in epochs if epoch in undrained]
            left.update(epoch for epoch in epochs if epoch not in undrained)
        # Second: what has ended by now has put its outputs.
        if left and self._context.delivery is not None:
            waiting += [epoch.partition for epoch in self._context.delivery.waiting_epochs() & left]
        return waiting

    def _end(
        self, partitions: Sequence[TopicPartition]
    ) -> tuple[dict[TopicPartition, Position], dict[TopicPartition, int]]:
        samples: list[Sample | None] = []
        returned: dict[TopicPartition, int] = {}
        for route, epochs in self.owned.by_route(partitions).values():
            with route.hub.locked() as inboxes:
                # In one hold of the lock: what finishes after this is stale, not lost from the count.
                samples += [self.owned.saver.last_sample(epoch) for epoch in epochs]
                # Together: between two ends a shared key could continue with the next partition's record and
                # pass one of ours that failed.
                left = inboxes.ending.end(epochs)
            returned |= {one.partition: records for one, records in zip(epochs, left, strict=True)}
            route.workers.cancel_ended()
        positions = {
            sample.epoch.partition: self.owned.saver.position(sample)
            for sample in samples
            if sample is not None
        }
        return positions, returned

    def _end_outputs(self, partitions: Sequence[TopicPartition], deadline_s: float) -> None:
        """Let nothing be sent any more for epochs that have ended."""
        if self._context.delivery is None:
            return
        # Before the next owner begins: what our queue still holds must not come behind what it sends.
        left_s = max(OUTPUTS_END_S, deadline_s - self._context.clock())
        epochs = [self.owned[partition].epoch for partition in partitions]
        self._context.delivery.end(epochs, 0.0 if self._context.exit_now() else left_s)

    def _end_lost(self, partitions: Iterable[TopicPartition]) -> None:
        ours = [partition for partition in partitions if partition in self.owned]
        # No commit and no drain: another member may have read on already, and a commit of ours would move the
        # group back. Results that still come are of an old epoch, dropped and counted.
        contact = self._context.brokers.contact
        silence_s = contact.silence_s if contact.is_cut_off else None
        if self._context.delivery is not None:
            self._context.delivery.lost()
        positions, returned = self._end(ours)
        self.unsaved.update(dict.fromkeys(self._context.ledger.missing(positions), LOST))
        self._end_outputs(ours, self._context.clock())
        for partition in ours:
            number = self.owned[partition].epoch.number
            self._leave(partition, "lost", PartitionLost(partition, number, returned[partition], silence_s))
        contact.note_gone(len(ours), left=len(self.owned), lost=True)

    def _revoked(
        self, partition: TopicPartition, returned_records: int, reason: str, why: str
    ) -> list[HookCall]:
        committed, number = self._context.ledger.acknowledged(partition), self.owned[partition].epoch.number
        next_offset = committed.next_offset if committed else None
        event = PartitionRevoked(partition, number, next_offset, returned_records, why)
        return self._leave(partition, reason, event)

    def _leave(self, partition: TopicPartition, reason: str, event: Event) -> list[HookCall]:
        """Drop what is known of a partition whose epoch has ended, tell of it, and queue its hooks."""
        context = self._context
        route, epoch = self.owned.pop(partition)
        number = epoch.number
        context.ledger.ended(partition)
        context.begins.on_epoch_end(partition, number)
        self.owned.saver.forget(partition, number)
        context.owned.standstill.tails.pop(partition, None)
        halted = context.owned.unreadable.pop(partition, None)
        # librdkafka remembers a pause over the next assign, so a partition that comes back would stay silent.
        if partition in context.flow.paused or (halted is not None and halted.is_paused):
            self._left_paused.add(partition)
        context.flow.forget(partition)
        context.owned.end(partition)
        self.owned.logs.forget(partition)
        if context.ages is not None:
            context.ages.report(partition)
        if context.history is not None:
            context.history.revoked(partition, number, reason)
        context.emit(event)
        closes = None if route.close is None else partial(route.close, epoch, reason)
        return context.hook_threads.close_epoch(partition, closes, reason)

    def _assign(self, consumer: Consumer, partitions: Sequence[KafkaPartition]) -> None:
        names = [TopicPartition(p.topic, p.partition) for p in partitions]
        begins = self.begin_known(consumer, names)
        waiting = [
            KafkaPartition(*name, OFFSET_BEGINNING) for name in names if name in self._context.owned.waiting
        ]
        where = [*(begin.kafka_partition() for begin in begins), *waiting]
        # Where each begins is always said: left to librdkafka, `auto.offset.reset` would decide silently,
        # and a partition without a commit could skip what arrives before the first commit.
        if self._context.settings.is_cooperative:
            consumer.incremental_assign(where)
        else:
            consumer.assign(where)
        if waiting:
            consumer.pause(waiting)
        self._context.brokers.contact.note_assigned()
        self.after_assign(consumer, [begin.partition for begin in begins])

    def begin_known(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> Sequence[Begin]:
        """Begin epochs for partitions that the client is about to be given; the others wait from now on."""
        found, waiting = self._context.begins.positions.find(consumer, partitions)
        restored, unknown = self._context.begins.restore.find(
            consumer, found, self._context.begins.positions.left_s
        )
        begins = [begin for begin in found if begin.partition not in unknown]
        self._stop_waiting(begin.partition for begin in begins)
        for event in self._context.owned.waiting.note({**waiting, **unknown}, self._context.clock()):
            self._context.emit(event)
        # Epochs begin before the client hears: from `assign` on records may arrive, and a record without an
        # epoch is dropped.
        for begin in begins:
            self._begin(begin, restored.get(begin.partition))
        if self._context.begins.catch_up_ends is not None:
            self._context.begins.catch_up_ends.ask(consumer, [begin.partition for begin in begins])
        if begins and self._context.brokers.log_watch is not None:
            self._context.brokers.log_watch.assigned()
        return begins

    def _stop_waiting(self, partitions: Iterable[TopicPartition]) -> None:
        """Let partitions wait no more; librdkafka keeps them paused over its next assign."""
        for partition in partitions:
            if self._context.owned.waiting.pop(partition, None) is not None:
                self._context.owned.logs.forget(partition)
                self._left_paused.add(partition)

    def after_assign(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        """See to partitions that were just assigned; those that were paused in an earlier epoch fetch."""
        self._on_assigned(consumer, partitions)
        self._resume_left_paused(consumer, partitions)

    def _resume_left_paused(self, consumer: Consumer, partitions: Iterable[TopicPartition]) -> None:
        paused = self._left_paused.intersection(partitions)
        if paused:
            consumer.resume([KafkaPartition(*partition) for partition in paused])
            self._left_paused -= paused

    def left_paused(self, consumer: Consumer, partition: TopicPartition) -> None:
        """Let a partition fetch that was paused when its epoch ended: now if it is ours again, else later."""
        self._left_paused.add(partition)
        if partition in self.owned and partition not in self._context.flow.paused:
            self._resume_left_paused(consumer, [partition])

    def begin_anew(self, begin: Begin) -> None:
        """End a partition's epoch and begin another elsewhere in its log; the group is not asked.

        Only when nothing of it is left without an outcome, and no output of it unacknowledged. What the old
        epoch could commit is of a log that is gone.
        """
        partition = begin.partition
        # Facts of the group go on, those of the old log do not.
        facts = self.owned.saver.carried(partition).of_no_log()
        _, returned = self._end([partition])
        self._end_outputs([partition], self._context.clock())
        self._revoked(partition, returned[partition], "revoked", "the log is new")
        self._begin(replace(begin, facts=facts))

    def _begin(self, begin: Begin, restored: Restored | None = None) -> None:
        context, partition = self._context, begin.partition
        route = self._routes[partition.topic]
        number = context.owned.begin(partition)
        hooked = route.open is not None or context.hook_threads.hooks.on_assigned is not None
        with route.hub.locked(noted=False) as inboxes:
            finished_before = restored.finished_before() if restored is not None else None
            epoch = inboxes.assign(partition, number, finished_before=finished_before, opened=not hooked)
            # A logical offset (the end of the log) has no number yet: the first record brings it.
            if begin.offset >= 0:
                epoch.received.next_offset = begin.offset
        self.owned[partition] = OwnedPartition(route, epoch)
        self.owned.saver.carry(partition, begin.facts)
        committed = stored(begin, number, restored)
        found_again = begin.offset if begin.is_empty else None
        context.ledger.assigned(partition, number, committed, found_again)
        self.owned.saver.begin(epoch, committed)
        context.begins.on_epoch_begin(partition, number, begin.committed.offset if begin.committed else None)
        if context.history is not None:
            context.history.assigned(partition, number, begin.words)
        context.emit(PartitionAssigned(partition, number, begin.words, begin.is_new))
        if restored is not None:
            context.emit(restored.event(number))
        if hooked:
            opens = None if route.open is None else partial(route.open, epoch)
            context.hook_threads.open_epoch(partition, opens, partial(_let_records_run, route, epoch))

    def guard(self, when: str, change: Callable[[], object]) -> None:
        """Do what a callback of librdkafka is for, so that nothing leaves it."""
        # An exception in a callback of librdkafka makes `consume()` drop the batch that it was about to
        # return, and the position has moved past it.
        self.is_in_callback = True
        try:
            change()
        except EhkafkaError as error:
            self._context.fatal(error)
        except Exception as error:
            failure = EngineError(f"ehkafka failed {when}: {error!r}. Please report this defect.")
            failure.__cause__ = error
            self._context.fatal(failure)
        finally:
            self.is_in_callback = False


def _let_records_run(route: Route, epoch: Epoch) -> None:
    """Open an epoch. On a hook's thread, perhaps long after a revoke: one that ended is never opened."""
    with route.hub.locked(noted=False) as inboxes:
        if not epoch.ended:
            inboxes.open(epoch)
