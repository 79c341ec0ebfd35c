"""The slow looks at a task's work: what is too old, too late, stuck, or would never end.

On the task's main thread, twice a second at most. Nothing here ends anything: it tells, or says what fails
the task.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ehkafka.errors import HandlerFailedError
from ehkafka.events import OutputsWait
from ehkafka.intake.stuck import StuckWatch
from ehkafka.lanes.inbox import EPOCH, MESSAGE
from ehkafka.lanes.order import describe_key
from ehkafka.recovery.failures import STOP
from ehkafka.wording import seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from ehkafka.intake.max_age import AgeLimits
    from ehkafka.intake.route import Route
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.inboxes import Inboxes
    from ehkafka.run.assembly import Assembly

# Between two looks at deadlines, deferred records and keys that nothing would ever end.
CHECK_S = 0.5


class TaskWatch:
    """Looks at the routes of one task, which gets what fails it."""

    def __init__(
        self,
        task: Assembly,
        routes: Sequence[Route],
        ages: AgeLimits | None,
        *,
        running: Callable[[], Iterable[tuple[Route, Epoch]]],
        check_letters: Callable[[], object],
        outputs_left: Callable[[], int],
    ) -> None:
        """`running` gives the epochs that there are now, `outputs_left` what is not acknowledged."""
        self._routes = routes
        self._ages = ages
        self._fail = task.fail
        self._check_letters = check_letters
        self._outputs_left = outputs_left
        self._emit = task.bus.emit
        self._stuck_s = task.app.settings.stuck_s
        self._next_s = now_s = time.monotonic()
        # How many there were at the last look, since when that is so, and whether it was reported.
        self._outputs = 0, now_s, False
        self._stuck = StuckWatch(routes, self._stuck_s, running, self._emit, now_s)

    def check(self, now_s: float) -> None:
        """Look, unless that was done a moment ago."""
        if now_s < self._next_s:
            return
        self._next_s = now_s + CHECK_S
        if self._ages is not None:
            self._ages.check()
        self._stuck.check(now_s)
        self._check_letters()
        self._check_outputs(now_s)
        for route in self._routes:
            self._check_deadlines(route)
            self._check_endless(route)

    def _check_outputs(self, now_s: float) -> None:
        """Report outputs of which none is acknowledged, once until one is: their records have ended."""
        left, (before, since_s, is_reported) = self._outputs_left(), self._outputs
        if left != before:
            self._outputs = left, now_s, False
        elif left and now_s - since_s >= self._stuck_s and not is_reported:
            self._outputs = left, since_s, True
            self._emit(OutputsWait(left, now_s - since_s))

    def _check_deadlines(self, route: Route) -> None:
        if route.deferrals is not None:
            for head in route.deferrals.take_expired():
                head.expire()
        for late in route.attempts.overdue() if route.attempts is not None else ():
            self._fail(
                HandlerFailedError(
                    f"Handler {late.handler!r} has been busy with {late.partition}@{late.offset}, key "
                    f"{late.key}, for {seconds(late.running_s)}; its deadline_s is {late.deadline_s:g}. A "
                    f"thread cannot be stopped, so the Spark task fails. Make the handler an async def, or "
                    f"raise deadline_s."
                )
            )

    def _check_endless(self, route: Route) -> None:
        """Fail the task for a key that waits for what no batch can wait for: a command, or a restart."""
        with route.hub.locked() as inboxes:
            endless = _endless(inboxes)
        if endless is None:
            return
        place, key, reason = endless
        self._fail(
            HandlerFailedError(
                f"The record at {place}, key {describe_key(key)} of handler {route.handler!r} waits "
                f"without end ({reason}), so its batch would never end. On Spark, on_error must answer "
                f"{STOP!r} or None, and the broker must accept dead letters."
            )
        )


def _endless(inboxes: Inboxes) -> tuple[str, Hashable, str] | None:
    """Return place, key and reason of a record that nothing in its batch will free. Caller has the lock."""
    for held in inboxes.waiting.held:
        if held.is_parked and held.due_s is None and held.ticket is None and held.q:
            entry = held.q[0]
            reason = "" if held.decision is None else held.decision.reason
            return f"{entry[EPOCH].partition}@{entry[MESSAGE].offset()}", held.key, reason
    return None
