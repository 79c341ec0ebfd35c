"""The slow watch: idle partitions and work that makes no progress. Poll thread, twice a second."""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING

from ehkafka.events import AttemptOverdue, StaleResult
from ehkafka.intake.stuck import StuckWatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ehkafka.intake.context import IntakeContext
    from ehkafka.intake.route import Route
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.records import TopicPartition


class ProgressWatch:
    """Compares two looks and reports partitions that did not move."""

    def __init__(self, context: IntakeContext, routes: Sequence[Route]) -> None:
        self._context = context
        self._routes = routes
        self._stuck = StuckWatch(routes, context.settings.stuck_s, self._owned, context.emit, context.clock())
        # Per partition: what was received at the last look, since when, and whether on_idle was called.
        self._idle: dict[TopicPartition, tuple[int, float, bool]] = {}

    def check(self) -> None:
        """Report stuck work and idle partitions, each once until it moves again."""
        now_s = self._context.clock()
        report_stale(self._context, self._routes)
        self._context.hook_threads.check()
        self._stuck.check(now_s)
        for route in self._routes:
            self._check_deadlines(route)
        if self._context.hook_threads.hooks.on_idle is not None:
            for epoch in list(self._context.owned.epochs()):
                self._check_idle(epoch, now_s)

    def _owned(self) -> Iterable[tuple[Route, Epoch]]:
        return list(self._context.owned.values())

    def _check_deadlines(self, route: Route) -> None:
        if route.deferrals is not None:
            for head in route.deferrals.take_expired():
                # What becomes of the record may be asked of user code.
                name = "a deferred record's deadline"
                self._context.hook_threads.submit(name, {name: head.expire})
        if route.attempts is None:
            return
        for late in route.attempts.take_unreported():
            stack = route.workers.stacks().get(late.worker, "it has ended meanwhile")
            what = (late.partition, late.offset, late.key, late.attempt, late.handler)
            self._context.emit(AttemptOverdue(*what, late.running_s, late.deadline_s, stack))

    def _check_idle(self, epoch: Epoch, now_s: float) -> None:
        partition, received = epoch.partition, epoch.tally.received_records
        seen, since_s, reported = self._idle.get(partition, (-1, now_s, False))
        if received != seen or epoch.tally.unfinished_records or self._is_behind(epoch):
            self._idle[partition] = (received, now_s, False)
        elif not reported and self._is_proved(partition, now_s - since_s):
            self._idle[partition] = (received, since_s, True)
            on_idle = self._context.hook_threads.hooks.on_idle
            assert on_idle is not None
            name = f"on_idle of {partition}"
            self._context.hook_threads.submit(name, {name: lambda: on_idle(partition)}, order=partition)

    def _is_proved(self, partition: TopicPartition, silent_s: float) -> bool:
        """Tell whether the silence has lasted for idle_s, and a broker said after that that the log ended."""
        logs, over_s = self._context.owned.logs, silent_s - self._context.settings.idle_s
        if over_s >= 0.0 and logs.age_s(partition, self._context.brokers.contact.now_s) > over_s:
            logs.wanted.add(partition)
            return False
        return over_s >= 0.0

    def _is_behind(self, epoch: Epoch) -> bool:
        """Tell whether the log goes on, or may: throttled fetches come back empty from a full log."""
        end = self._context.owned.logs.end(epoch.partition)
        if end is None or self._context.brokers.throttle.is_recent:
            return True  # no answer yet, or none that proves anything
        return epoch.received.next_offset is not None and end > epoch.received.next_offset


def report_stale(context: IntakeContext, routes: Sequence[Route]) -> None:
    """Report results that were ignored because their epoch had ended."""
    for route in routes:
        with route.hub.locked() as inboxes:
            ignored, inboxes.router.ignored = inboxes.router.ignored, deque()
        for epoch, records in Counter(ignored).items():
            context.emit(StaleResult(epoch.partition, epoch.number, records))
