"""The end of a run: drain, commit, leave the group, end the threads, and say what is left undone.

On the poll thread, once. The order matters: nothing new is taken before the drain, the commit comes
after the last outcome and before leaving, and hooks end after the workers' last record.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.errors import EhkafkaError, UnfinishedError
from ehkafka.events import AppStopping, ConnectionProblem, Draining, UserCodeLeft
from ehkafka.intake.returned import still_unfinished
from ehkafka.intake.watch import report_stale

if TYPE_CHECKING:
    from collections.abc import Sequence

    from confluent_kafka import Consumer

    from ehkafka.intake.context import IntakeContext
    from ehkafka.intake.membership import Released
    from ehkafka.intake.poll_loop import PollLoop
    from ehkafka.intake.returned import ReturnedRecords
    from ehkafka.intake.route import Route
    from ehkafka.progress.ledger import Position
    from ehkafka.records import TopicPartition
    from ehkafka.run.ending import StopRequest

# After the deadline: the commit, the leave and the threads get this much together.
EXIT_S = 0.8
# Between two tries of the last commit.
COMMIT_AGAIN_S = 0.5
# Between two looks whether threads have ended or the user wants to exit at once.
THREADS_CHECK_S = 50e-3
# What the client has to say before it is closed.
LAST_POLLS = 3
LAST_POLL_S = 20e-3
# A close takes milliseconds, also while the broker is away.
CLOSE_TIMEOUT_S = 1.0


class Shutdown:
    """Carries out one stop request."""

    def __init__(self, context: IntakeContext, loop: PollLoop, routes: Sequence[Route]) -> None:
        self._context = context
        self._loop = loop
        self._routes = list({route.name: route for route in routes}.values())
        self._returned_before = 0

    def run(self, consumer: Consumer, request: StopRequest) -> EhkafkaError | None:
        """End the run; return the error that names what is handled again though it was started, if any is."""
        context = self._context
        context.emit(AppStopping(request.reason, request.drain, request.timeout_s))
        self._returned_before = self._returned_records()
        revoked: list[Released] = []
        self._loop.membership.revoked = revoked
        self._loop.membership.unsaved.clear()
        self._take_nothing_more(consumer, request)
        drained = self._drain(consumer, request)
        if drained and request.drain == "started":
            # A retry that comes due while the last commit is on its way would run into the end.
            self._loop.membership.cut(context.owned, None)
        may_commit = self._commit_while_time(consumer, request)
        left = self._left()
        # Hooks and tear-downs may need as long as the stop itself; after its deadline the stop leaves them.
        now_s = context.clock()
        ends_s = max(request.deadline_s, now_s + EXIT_S) if drained else now_s + 0.1
        released = self._release(consumer, ends_s, may_commit=may_commit)
        never_started = self.returned_records - sum(one.returned_records for one in revoked)
        if (event := left.event(never_started)) is not None:
            context.emit(event)
        returned = self._returned(left, released)
        self._take_last_callbacks(consumer)
        self._close(consumer)
        busy = self._end_threads(ends_s)
        if drained and busy:
            context.emit(UserCodeLeft(tuple(busy)))
        report_stale(context, self._routes)
        return returned

    def _take_nothing_more(self, consumer: Consumer, request: StopRequest) -> None:
        # Before the drain takes what it does not handle: from then on the client's position proves nothing.
        self._loop.check_log_ends(consumer, list(self._context.owned.epochs()))
        self._stop_fetching(consumer)
        if request.drain != "all":
            # Before anything is hurried: a batch that still waits for records is not started.
            self._cut(consumer, request)
        for route in self._routes:
            route.hub.hurry()

    def _release(self, consumer: Consumer, ends_s: float, *, may_commit: bool) -> Released:
        return self._loop.membership.release(
            consumer,
            list(self._context.owned),
            reason="stopped",
            drain_s=0.0,
            commit_s=EXIT_S if may_commit else 0.0,
            hooks_end_s=ends_s,
        )

    def _left(self) -> ReturnedRecords:
        """Return what has no outcome, or outputs that are not acknowledged, before the partitions go."""
        delivery = self._context.delivery
        left = still_unfinished(list(self._context.owned.values()))
        if delivery is not None:
            left = left._replace(bounded=frozenset(one.partition for one in delivery.lowest()))
            if not delivery.is_exactly_once:
                left = left._replace(outputs=delivery.outputs.count())
        return left

    def _returned(self, left: ReturnedRecords, released: Released) -> UnfinishedError | None:
        """Return the error that names what the next owner handles again, if anything is."""
        gone = self._loop.membership.unsaved
        not_committed = sorted({*released.uncommitted, *gone})
        words = [left.still_running(), left.unacknowledged()]
        problem = self._context.committer.problem or next(iter(gone.values()), None)
        words.append(left.uncommitted(not_committed, released, problem))
        if not self._context.owned.saver.is_mirrored:
            words.append(left.unsaved(released))
        return UnfinishedError(" ".join(filter(None, words))) if any(words) else None

    @property
    def returned_records(self) -> int:
        """How many records the stop left without an outcome."""
        return self._returned_records() - self._returned_before

    def _returned_records(self) -> int:
        return sum(route.hub.tally.returned_records for route in self._routes)

    def _commit_while_time(self, consumer: Consumer, request: StopRequest) -> bool:
        """Commit what is finished, again after a refusal that fixes itself; False: another try is no use.

        Asynchronously, so that the group's callbacks go on, and one after the other: librdkafka may send a
        request again by itself, and one that came after the last commit would take that back.
        """
        committer, ledger = self._context.committer, self._context.ledger
        tried: dict[TopicPartition, Position] = {}
        # Without partitions an answer to the last commit changes nothing: another member's count.
        while (
            self._context.owned
            and self._context.clock() < request.deadline_s
            and not self._context.exit_now()
        ):
            if ledger.in_flight is None:
                if (now_tried := self._try(consumer, tried)) is None:
                    break
                tried = now_tried
            self._loop.turn_without_intake(consumer)
        if ledger.in_flight is not None and committer.waited_s() >= EXIT_S:
            committer.give_up(self._context.owned.positions())
            return False
        if tried and not committer.is_transient:
            return False
        # Before what is left is counted: its answer decides what the last positions are.
        return committer.settle(EXIT_S)

    def _try(
        self, consumer: Consumer, tried: dict[TopicPartition, Position]
    ) -> dict[TopicPartition, Position] | None:
        """Commit if it is time; return what was tried last, None where no try is left."""
        committer, ledger = self._context.committer, self._context.ledger
        if tried and not committer.is_transient:
            return None
        wait_s = max(COMMIT_AGAIN_S, ledger.pacing.spacing_s)
        if committer.problem is not None and committer.waited_s() < wait_s:
            return tried
        positions = self._context.owned.positions(in_full=True)
        dirty = ledger.missing(positions) if tried else ledger.dirty(positions)
        if not (dirty or self._has_outputs()):
            return None
        committer.send(consumer, positions, 0)
        return dirty or tried

    def _end_threads(self, ends_s: float) -> list[str]:
        """Wait for hooks and workers; leave and return what runs at `ends_s`, or once the user exits."""
        while True:
            hooks = self._context.hook_threads.close(THREADS_CHECK_S)
            workers = [name for route in self._routes for name in route.workers.stop(THREADS_CHECK_S)]
            for route in self._routes:
                route.hub.settle()
            busy = hooks + workers
            if not busy or self._context.clock() >= ends_s or self._context.exit_now():
                break
        for route in self._routes:
            route.workers.let_go()
            if route.deferrals is not None:
                route.deferrals.close()
        return busy

    def _stop_fetching(self, consumer: Consumer) -> None:
        partitions = [KafkaPartition(*partition) for partition in self._context.owned]
        try:
            consumer.pause(partitions)
        except KafkaException:
            # Lost a moment ago: nothing of it is ours to pause, and its callback comes with the next poll.
            self._context.count("pause_refused", 1)

    @staticmethod
    def _take_last_callbacks(consumer: Consumer) -> None:
        """Let a rebalance that is under way call back now, while the client is whole.

        A callback left for `close()` can find the client's group handler ended; it then waits for ever
        and holds the GIL: the whole process stands still (seen after a topic was deleted). Leaving by
        `unsubscribe` would be surer, but makes `close` wait for a broker that is away, and a static
        member lose its partitions.
        """
        for _ in range(LAST_POLLS):
            consumer.consume(1, LAST_POLL_S)

    def _close(self, consumer: Consumer) -> None:
        # After a fatal error of the client (a fenced member has one) librdkafka never ends its close.
        closing = threading.Thread(target=consumer.close, name="ehkafka-close", daemon=True)
        closing.start()
        closing.join(CLOSE_TIMEOUT_S)
        if closing.is_alive():
            text = f"the client did not close within {CLOSE_TIMEOUT_S:.0f} s; it ends with the process"
            self._context.emit(ConnectionProblem("close", text, fatal=True))

    def _cut(self, consumer: Consumer, request: StopRequest) -> bool:
        """Start nothing above what is started; tell whether what lies below it is still finished."""
        membership, owned = self._loop.membership, self._context.owned
        ends_s = request.deadline_s if request.drain == "started" else None
        if membership.cut(owned, ends_s):
            return True
        if self._context.ledger.in_flight is None:
            # At once: what is finished above the commits would be repeated if this process were killed now.
            self._context.committer.send(consumer, owned.positions(in_full=True), 0)
        return False

    def _drain(self, consumer: Consumer, request: StopRequest) -> bool:
        """Poll, for the group and for commits, until nothing can run any more or the time is over."""
        next_word_s = 0.0
        finishes = request.drain == "started"
        # In this order: the outputs of what has ended meanwhile are found to wait.
        while any(self._has_runnable(route, request) for route in self._routes) or self._has_outputs():
            now_s = self._context.clock()
            if now_s >= request.deadline_s or self._context.exit_now():
                return False
            if now_s >= next_word_s:
                next_word_s = now_s + 1.0
                queued = sum(route.hub.tally.unfinished_records for route in self._routes)
                self._context.emit(Draining(request.deadline_s - now_s, queued))
            if finishes and now_s >= self._loop.membership.cut_again_s:
                finishes = self._cut(consumer, request)
            self._loop.turn_without_intake(consumer)
        return True

    def _has_outputs(self) -> bool:
        delivery = self._context.delivery
        return delivery is not None and not delivery.waiting_epochs().isdisjoint(self._context.owned.epochs())

    @staticmethod
    def _has_runnable(route: Route, request: StopRequest) -> bool:
        with route.hub.locked() as inboxes:
            if inboxes.ending.undrained(list(inboxes.router.epochs.values())):
                return True
            due_s = inboxes.waiting.next_due_s()
            # Where all is to be handled, a retry that comes in time is, too.
            return request.drain == "all" and due_s is not None and due_s < request.deadline_s
