"""The poll loop: the one thread that owns the `Consumer`.

Takes batches, hands them to the routes' hubs, controls the flow, commits, watches. It never
calls a handler and never waits for one, so the group never loses this member because of slow work.
Everything that touches the consumer happens here, rebalance callbacks included.
"""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING

from confluent_kafka.cimpl import Message as KafkaMessage

from ehkafka.endpoint.broker_errors import MAY_RECOVER, NO_SUCH_OFFSET, ends_app, failed_fetch
from ehkafka.endpoint.client import describe_error
from ehkafka.events import ConnectionProblem, ProgressIgnored
from ehkafka.headers.size import sizes_of
from ehkafka.intake.backpressure import Backpressure
from ehkafka.intake.by_hand import ByHand
from ehkafka.intake.log_ends import LogEnds
from ehkafka.intake.membership import Membership
from ehkafka.intake.parked_budget import ParkedBudget
from ehkafka.intake.poll_wait import BUSY_POLL_S, PollGap, PollWait, Rest
from ehkafka.intake.repair import GapRepair
from ehkafka.intake.standstill import StandstillWatch
from ehkafka.intake.unreadable import UnreadablePartitions
from ehkafka.intake.waiting import BeginLater
from ehkafka.records import TopicPartition
from ehkafka.records.client_codes import ClientCode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from confluent_kafka import Consumer, KafkaError

    from ehkafka.intake.context import IntakeContext
    from ehkafka.intake.route import Route
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.inboxes import Part
    from ehkafka.records import Message

# Between two looks at the ends of the logs, at idle partitions and at stuck work.
SLOW_CHECK_S = 0.5
# Between two looks while records are withheld and nothing must be watched closely.
WITHHELD_S = 5e-3
# The same while a quick handler has what it is done with in a millisecond or two.
QUICK_WITHHELD_S = 5e-4
REFUTED = "the log was truncated and written again there"


class PollLoop:
    """Drives the consumer until asked to stop. All methods are the poll thread's."""

    def __init__(
        self,
        context: IntakeContext,
        routes: Mapping[str, Route],
        *,
        on_error: Callable[[KafkaError], None],
        slow_check: Callable[[], None],
    ) -> None:
        """`routes` by topic. `on_error` hears of connection errors; `slow_check` runs twice a second."""
        self._context = context
        self._routes = routes
        self._distinct = list({route.name: route for route in routes.values()}.values())
        self._on_error = on_error
        self._slow_check = slow_check
        self._one_topic = len(routes) == 1
        self._next_slow_check_s = 0.0
        # Whether something must be watched closely; see `_wait_s`.
        self._busy = False
        self._wait = PollWait(Rest(context.brokers.contact.unreachable_s))
        # When the loop last came round; read by `App.health` from any thread.
        self.last_turn_s = context.clock()
        # How long it was between two turns of late. For metrics.
        self.gap = PollGap(self.last_turn_s)
        # Whether all that the client has handed out is received.
        self._is_all_received = True
        self.by_hand = ByHand(context)
        self.membership = Membership(context, routes, self.watch, on_assigned=self._on_assigned)
        self._parked = ParkedBudget(context)
        # The amounts at the last look at it, and when the next one is due in any case.
        self._parked_seen: tuple[tuple[int, ...], float] = ((), 0.0)
        self._gaps = GapRepair(context, self.membership)
        self._log_ends = LogEnds(context)
        self._unreadable = UnreadablePartitions(context, self._gaps.note_refused)
        self._standstill = StandstillWatch(context, self._unreadable.note_silent)
        self._waiting = BeginLater(context, self.membership, self._gaps.note_refused)
        self._pressure = Backpressure(
            context, self._distinct, lambda each: self._gaps.halts(each) or self._unreadable.halts(each)
        )

    def run(self, consumer: Consumer, should_stop: Callable[[], bool]) -> None:
        """Poll until `should_stop` says so or an error is fatal. Subscribed before, closed after."""
        while not should_stop():
            self.turn(consumer)

    def use(self, properties: Mapping[str, object]) -> None:
        """Take the properties of the run's consumer, before there is a poll thread."""
        self._pressure.prefetch.use(properties)

    def turn(self, consumer: Consumer) -> None:
        """Take one batch, hand it on, and do what is due."""
        self._note_turn()
        messages = self._consume(consumer)
        was_called = not self._is_all_received
        # Before its records are handed on: what is paused in a new epoch, too, must not start.
        self.by_hand.run(consumer)
        # One `consume()` may end epochs and begin others before it returns: its records take the epoch that
        # is valid now, and those of a partition that is gone are dropped.
        received = self._deliver(consumer, messages) if messages else ()
        # From here to the next `consume()` alone the client's position tells which offsets hold no record:
        # inside of one, and after an error, it is past records that were not received.
        self._is_all_received = True
        self._log_ends.check_where_passed(consumer, received)
        self._unreadable.run(consumer)
        # Never inside `_deliver`: a gap may seek or assign anew, which drops what the client still holds.
        self._gaps.run(consumer, was_called=was_called)
        self._waiting.run(consumer)
        self._check_parked(consumer)
        self._busy = self.watch()
        self._pressure.resume(consumer)
        self._commit_if_due(consumer)
        self._check_slowly(consumer)

    def _note_turn(self) -> None:
        self._context.brokers.contact.note_turn()
        now_s = self._context.clock()
        gap_s, self.last_turn_s = now_s - self.last_turn_s, now_s
        self.gap.note(gap_s, now_s)

    def _consume(self, consumer: Consumer) -> Sequence[Message]:
        wanted = self._pressure.wanted(consumer)
        if wanted == 0:
            self._context.flow.has_withheld = True
            # Left alone, the client would go on fetching what it does not count.
            self._pressure.bound_prefetch(consumer)
            left_s = self._pressure.touch_due_s() - self._context.clock()
            if left_s > 0:
                # Not in `consume()`: with a full queue that returns at once, with an unwanted record.
                # The handlers have work for longer than this, or wait for each other.
                time.sleep(min(left_s, self._withheld_s()))
                return ()
            # librdkafka serves rebalances, errors and acknowledgements only in a call for records.
            self._pressure.make_room(consumer)
        self._is_all_received = False
        # What is there is taken at once, whatever its number; only an empty queue is waited for, and then one
        # record is enough: asking for more would wait for a full batch.
        messages = consumer.consume(max(1, wanted), 0)
        if wanted and not messages:
            messages = consumer.consume(1, self._wait_s())
        self._log_ends.has_drained |= len(messages) < wanted
        self._pressure.touched()
        return messages  # type: ignore[return-value]

    def _withheld_s(self) -> float:
        """Return for how long nothing is to be taken."""
        if self._pressure.has_quick:
            return QUICK_WITHHELD_S
        return self._wait_s() if self._busy else max(WITHHELD_S, self._wait_s())

    def _on_assigned(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self._log_ends.begin(consumer, partitions)
        self._wait.rest.note(None, self._context.clock(), is_idle=False)
        self.by_hand.note_assigned()

    def turn_without_intake(self, consumer: Consumer) -> None:
        """Stay a member while a stop drains: what still arrives was never received and is redelivered."""
        self._note_turn()
        self._is_all_received = False
        self._without_errors(consumer, consumer.consume(1, BUSY_POLL_S))  # type: ignore[arg-type]
        self.by_hand.run(consumer)
        self.watch()
        self._commit_if_due(consumer)
        # A drain may outlive a key: what is committed at its end needs the new one.
        self._check_slowly(consumer)

    def watch(self) -> bool:
        """Balance, wake, end waits that are over; True while anything needs another look soon."""
        busy = False
        for route in self._distinct:
            busy |= route.hub.watch()
        return busy

    def _wait_s(self) -> float:
        now_s = self._context.clock()
        # Read without the lock, which is taken only when something is due: this runs in every turn.
        dues = [route.hub.inboxes.waiting.earliest_s for route in self._distinct]
        dues += [route.hub.next_due_s() for route in self._distinct]
        due_s = min((due for due in dues if due is not None), default=None)
        paused = self._context.flow.paused
        return self._wait.next_s(
            is_watched=self._busy,
            waits=bool(paused),
            moved=(len(paused), *self._moved()),
            until_due_s=None if due_s is None else due_s - now_s,
        )

    def _moved(self) -> Iterator[int]:
        """Yield numbers of which at least one changes when anything of the work moves."""
        for route in self._distinct:
            tally = route.hub.tally
            yield from (tally.outcomes, tally.received_records)

    def _check_parked(self, consumer: Consumer) -> None:
        """See whether what is parked has outgrown its budget, where it changed since the last look.

        Its cost is that of every waiting key: not to be paid in each turn of a loop that only waits.
        """
        context = self._context
        if not context.owned.parked_full and not any(
            route.hub.tally.parked_records for route in self._distinct
        ):
            return
        amounts = (
            *self._moved(),
            self._pressure.amounts().backlog_bytes,
            self._pressure.amounts().parked_bytes,
            len(context.flow.parked_full),
            len(context.owned),
        )
        now_s = context.clock()
        if amounts != self._parked_seen[0] or now_s >= self._parked_seen[1]:
            self._parked_seen = amounts, now_s + SLOW_CHECK_S
            self._parked.check(lambda partitions: self._pressure.pause(consumer, partitions))

    def check_log_ends(self, consumer: Consumer, epochs: Collection[Epoch]) -> None:
        """Take over where the logs end and what of them is no record, if nothing handed out got lost."""
        if self._is_all_received:
            self._log_ends.check(consumer, epochs)
        self._log_ends.keep(epochs)

    def _deliver(self, consumer: Consumer, messages: Sequence[Message]) -> list[Epoch]:
        if any(map(KafkaMessage.error, messages)):  # type: ignore[arg-type]
            messages = self._without_errors(consumer, messages)
        context = self._context
        if messages:
            self._pressure.prefetch.note(messages[-1])  # before a handler sets anything in it
        received: list[Epoch] = []
        parts: dict[str, tuple[Route, list[Part]]] = {}
        for partition, batch in self._by_partition(messages):
            owned = context.owned.get(partition)
            if owned is None:
                # librdkafka drops what it fetched for a partition that is gone; if not, it is another's now.
                context.count("records_unassigned", len(batch))
                continue
            route, epoch = owned
            parts.setdefault(route.name, (route, []))[1].append(self._part(route, epoch, batch))
            received.append(epoch)
        largest_bytes = 0
        for route, of_route in parts.values():
            largest_bytes = max(largest_bytes, *(max(sizes) for *_, sizes in of_route))
            route.hub.receive(of_route)
        context.flow.note_batch(largest_bytes)
        return received

    def _part(self, route: Route, epoch: Epoch, batch: list[Message]) -> Part:
        """Return what a hub is given of a partition. Keys are read here: that may be the user's code."""
        context, partition = self._context, epoch.partition
        fresh = batch if epoch.received.finished_before is None else self._without_restored(epoch, batch)
        # Noted before it is received: a worker may start the first record before `receive` returns.
        if context.history is not None and fresh:
            context.history.received(partition, epoch.number, [message.offset() for message in fresh])
        # Before any code of the user's sees the messages.
        sizes = sizes_of(batch)
        if context.ages is None or not (skipped := context.ages.too_old(partition, fresh)):
            keys = None if route.hub.inboxes.router.unread.needs_no_keys() else route.keys.keys(batch)
            return epoch, batch, keys, (), sizes
        young = [message for message in batch if message.offset() not in skipped]
        if context.history is not None:
            for message in batch:
                if message.offset() in skipped:
                    what = (partition, epoch.number, message.offset(), message.key(), 1)
                    context.history.finished(*what, "skipped")
        # Skipped ones go in with the others: the commit position counts every offset that was received.
        return epoch, batch, route.keys.keys(young) if young else (), skipped, sizes

    def _without_restored(self, epoch: Epoch, batch: list[Message]) -> list[Message]:
        """Return what is to be handled of a batch; the inboxes give the others their result."""
        context, before, partition = self._context, epoch.received.finished_before, epoch.partition
        assert before is not None
        fresh = [batch[place] for place in before.fresh(batch)]
        context.count("records_restored", len(batch) - len(fresh))
        if before.is_refuted(batch):
            context.emit(ProgressIgnored(partition, batch[-1].offset() + 1, REFUTED, "an earlier epoch"))
        if context.history is not None:
            # What ends the batch is passed without an outcome of this epoch.
            context.history.jumped(partition, epoch.number, batch[-1].offset() + 1)
        return fresh

    def _by_partition(self, messages: Sequence[Message]) -> Iterator[tuple[TopicPartition, list[Message]]]:
        if self._one_topic:
            topic = next(iter(self._routes))
            for number, batch in itertools.groupby(messages, KafkaMessage.partition):  # type: ignore[arg-type]
                yield TopicPartition(topic, number), list(batch)  # type: ignore[arg-type]
        else:
            for name, batch in itertools.groupby(messages, lambda m: (m.topic(), m.partition())):
                yield TopicPartition(*name), list(batch)

    def _without_errors(self, consumer: Consumer, messages: Iterable[Message]) -> list[Message]:
        good: list[Message] = []
        halted: set[TopicPartition] = set()
        for message in messages:
            error = message.error()
            if error is None:
                # librdkafka passes some batches that it cannot read: what lies behind is received later.
                if not halted or (message.topic(), message.partition()) not in halted:
                    good.append(message)
            elif (failed := failed_fetch(message)) is not None:  # type: ignore[arg-type]
                self._unreadable.note(failed)
                if failed.is_batch:
                    halted.add(failed.partition)
            elif error.code() in NO_SUCH_OFFSET:
                # Only noted: the partition's position may move once everything received here is in an inbox.
                self._gaps.note(error, message)
            else:
                self._take_error(consumer, error)
        return good

    def error_cb(self, consumer: Consumer, error: KafkaError) -> None:
        """Take an error of the client itself. Called by librdkafka inside `consume()`."""
        self.membership.guard("on a client error", lambda: self._take_error(consumer, error))

    def _take_error(self, consumer: Consumer, error: KafkaError) -> None:
        fatal = ends_app(consumer, error, set(self._routes))
        self._context.emit(ConnectionProblem(error.name(), describe_error(error), fatal=fatal is not None))
        if fatal is not None:
            self._context.fatal(fatal)
        elif error.code() in MAY_RECOVER:
            if error.code() == ClientCode.ALL_BROKERS_DOWN and self._context.brokers.log_watch is not None:
                self._context.brokers.log_watch.ask_soon()
            self._on_error(error)

    def _commit_if_due(self, consumer: Consumer) -> None:
        context = self._context
        context.committer.take_answers()
        finished = sum(route.hub.tally.outcomes for route in self._distinct)
        is_at_rest = context.owned.saver.is_at_rest
        if context.owned and context.ledger.due(context.clock(), finished, is_at_rest=is_at_rest):
            context.committer.tick(consumer, context.owned.locked(), finished)

    def _check_slowly(self, consumer: Consumer) -> None:
        now_s = self._context.clock()
        if now_s < self._next_slow_check_s:
            return
        self._next_slow_check_s = now_s + SLOW_CHECK_S
        self._wait.rest.note((*self._moved(), len(self._context.owned)), now_s, is_idle=self._is_idle())
        if self._wait.rest.wants_check(now_s, is_asked=self._log_ends.is_asked):
            self._check_logs(consumer, is_at_rest=self._wait.rest.is_now)
        if self._context.ages is not None:
            self._context.ages.check()
        self.by_hand.then()
        self.by_hand.apply(consumer)
        self._slow_check()

    def _check_logs(self, consumer: Consumer, *, is_at_rest: bool) -> None:
        """Look at what is known of each partition's log."""
        epochs = self._context.owned.epochs() if is_at_rest else self._log_ends.due()
        self.check_log_ends(consumer, list(epochs))
        if self._context.brokers.log_watch is not None:
            found = self._context.brokers.log_watch.check(is_at_rest=is_at_rest)
            for partition, reason in found.items():
                self._gaps.note_another_log(consumer, partition, reason)
        self._standstill.check()

    def _is_idle(self) -> bool:
        """Tell whether nothing waits, lags or is unfinished, and all is committed but for what just was."""
        context, owned = self._context, self._context.owned
        waits = context.flow.paused or owned.unreadable or owned.waiting or owned.standstill.partitions()
        unfinished = any(route.hub.tally.unfinished_records for route in self._distinct)
        ends = context.begins.catch_up_ends is not None
        return owned.saver.is_at_rest and not (waits or unfinished or ends or self._busy)
