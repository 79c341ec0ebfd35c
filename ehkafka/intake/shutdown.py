"""The end of a run: drain, commit, leave the group, end the threads, and say what is left undone.

On the poll thread, once. The order matters: nothing new is taken before the drain, the commit comes
after the last outcome and before leaving, and hooks end after the workers' last record.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from ehkafka.errors import AbandonedError, EhkafkaError
from ehkafka.events import AppStopped, AppStopping, ConnectionTrouble, Draining
from ehkafka.intake.watch import running_records, tell_stale

if TYPE_CHECKING:
    from collections.abc import Sequence

    from confluent_kafka import Consumer

    from ehkafka.intake.context import IntakeContext
    from ehkafka.intake.poll_loop import PollLoop
    from ehkafka.intake.route import Route

NAMED_RECORDS_MAX = 20
# After the deadline: the commit, the leave and the threads get this much together.
LEAVE_S = 0.8
# What the client has to say before it is closed.
LAST_POLLS = 3
LAST_POLL_S = 20e-3
# A close takes milliseconds, also while the broker is away.
CLOSE_TIMEOUT_S = 1.0


@dataclass(frozen=True, slots=True)
class StopRequest:
    """A wish to stop by `deadline_s` (monotonic). Without `drain` only what runs is waited for."""

    reason: str
    drain: bool
    deadline_s: float


class Shutdown:
    """Carries out one stop request."""

    def __init__(self, context: IntakeContext, loop: PollLoop, routes: Sequence[Route]) -> None:
        self._context = context
        self._loop = loop
        self._routes = list({route.name: route for route in routes}.values())

    def run(
        self, consumer: Consumer, request: StopRequest, failure: EhkafkaError | None
    ) -> EhkafkaError | None:
        """End the run; return the error that names what was abandoned against the wish, if anything was."""
        context = self._context
        remaining_s = max(0.0, request.deadline_s - time.monotonic())
        context.emit(AppStopping(request.reason, request.drain, remaining_s))
        self._stop_fetching(consumer)
        if not request.drain:
            self._loop.membership.cut_short(context.owned, below_started=False)
        drained = self._drain(consumer, request)
        unfinished = [] if drained else list(running_records(context))
        queued = sum(route.dispatcher.unfinished_records for route in self._routes)
        commit_s = max(LEAVE_S, request.deadline_s - time.monotonic())
        self._loop.membership.release(
            consumer, list(context.owned), reason="stopped", drain_s=0.0, commit_s=commit_s
        )
        abandoned = AbandonedError(_named(unfinished, queued)) if not drained else None
        self._take_last_callbacks(consumer)
        self._close(consumer)
        context.hook_thread.close(LEAVE_S if drained else 0.1)
        for route in self._routes:
            route.workers.stop(LEAVE_S if drained else 0.1)
            route.exchange.settle()
        tell_stale(context, self._routes)
        exit_code = (failure or abandoned or EhkafkaError).exit_code if failure or abandoned else 0
        context.emit(AppStopped(exit_code, queued))
        return abandoned

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
            said = f"the client did not close within {CLOSE_TIMEOUT_S:.0f} s and is left to the process's end"
            self._context.emit(ConnectionTrouble("close", said, fatal=True))

    def _drain(self, consumer: Consumer, request: StopRequest) -> bool:
        """Poll, for the group and for commits, until nothing can run any more or the time is over."""
        next_word_s = 0.0
        while any(self._has_runnable(route, request) for route in self._routes):
            now_s = time.monotonic()
            if now_s >= request.deadline_s or self._context.leave_now():
                return False
            if now_s >= next_word_s:
                next_word_s = now_s + 1.0
                queued = sum(route.dispatcher.unfinished_records for route in self._routes)
                self._context.emit(Draining(request.deadline_s - now_s, queued))
            self._loop.turn_without_intake(consumer)
        return True

    @staticmethod
    def _has_runnable(route: Route, request: StopRequest) -> bool:
        with route.exchange.locked() as dispatcher:
            due_s = dispatcher.holds.next_due_s()
            # A retry that comes in time is worth waiting for: what finished behind it would be repeated.
            return dispatcher.has_runnable() or (due_s is not None and due_s < request.deadline_s)


def _named(unfinished: list[str], queued: int) -> str:
    shown = ", ".join(unfinished[:NAMED_RECORDS_MAX]) + (" …" if len(unfinished) > NAMED_RECORDS_MAX else "")
    return (
        f"The app left with {queued} records unfinished; none of them was committed, so they are handled "
        f"again. Handlers still running: {shown or 'none'}."
    )
