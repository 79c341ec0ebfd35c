"""Notices that nothing finishes although records wait, and says which run and where.

Looked at now and then by the thread that watches a run's routes: the poll thread, or that of a task on Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.events import StuckReport
from ehkafka.lanes.order import describe_key
from ehkafka.wording.live_stack import stacks_text

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

    from ehkafka.events import Event
    from ehkafka.intake.route import Route
    from ehkafka.lanes.assignment import Assignment
    from ehkafka.lanes.dispatcher import Dispatcher


class StuckWatch:
    """Remembers how much had finished; `check` reports once when that stays so for `stuck_s` seconds.

    `owned` gives the assignments that there are now, with their routes.
    """

    def __init__(
        self,
        routes: Sequence[Route],
        stuck_s: float,
        owned: Callable[[], Iterable[tuple[Route, Assignment]]],
        emit: Callable[[Event], None],
        now_s: float,
    ) -> None:
        self._routes = routes
        self._stuck_s = stuck_s
        self._owned = owned
        self._emit = emit
        self._finished = 0
        self._moved_s = now_s
        self._reported = False

    def check(self, now_s: float) -> None:
        """Report stuck work, once until it moves again."""
        finished = sum(route.dispatcher.outcomes for route in self._routes)
        # Where ready lanes wait for the rate limit, slowness is what the user wanted.
        waiting = any(
            route.dispatcher.backlog_records and route.exchange.next_due_s() is None for route in self._routes
        )
        if finished != self._finished or not waiting:
            self._finished, self._moved_s, self._reported = finished, now_s, False
        elif now_s - self._moved_s >= self._stuck_s and not self._reported:
            self._reported = True
            text = stacks_text(dict(self._new_stacks()))
            self._emit(StuckReport(now_s - self._moved_s, tuple(running_records(self._owned())), text))

    def _new_stacks(self) -> Iterator[tuple[str, str]]:
        """Yield where each busy worker is, but for calls past their deadline: those were reported so."""
        for route in self._routes:
            reported = route.attempts.reported_workers() if route.attempts is not None else ()
            for name, stack in route.workers.stacks().items():
                if name not in reported:
                    yield name, stack


def running_records(owned: Iterable[tuple[Route, Assignment]]) -> Iterator[str]:
    """Name the records that are in flight now: their handlers run, or their end is awaited."""
    for route, assignment in owned:
        with route.exchange.locked() as dispatcher:
            found = list(_running_lanes(dispatcher, assignment))
        for offset, key, waits in found:
            yield f"{assignment.partition}@{offset} key {describe_key(key)}{waits}"


def _running_lanes(dispatcher: Dispatcher, assignment: Assignment) -> Iterator[tuple[int, Hashable, str]]:
    """Yield offset and key of each head in flight, and for what it waits. Caller has the lock."""
    for lane in assignment.lanes_here():
        ticket = dispatcher.decisions.ticket_of(lane)
        if (lane.running or ticket is not None) and lane.head is not None:
            yield lane.head.offset(), lane.key, f" ({ticket.decision.reason})" if ticket is not None else ""
    if dispatcher.express is not None:
        for message, key in dispatcher.express.in_flight(assignment):
            yield message.offset(), key, ""
