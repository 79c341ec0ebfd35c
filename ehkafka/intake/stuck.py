"""Notices that nothing finishes although records wait, and says which run and where.

Looked at now and then by the thread that watches a run's routes: the poll thread, or that of a task on Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.events import StuckReport
from ehkafka.lanes.inbox import EPOCH, KEY, MESSAGE
from ehkafka.lanes.order import describe_key
from ehkafka.wording import seconds
from ehkafka.wording.live_stack import stacks_text

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

    from ehkafka.events import Event
    from ehkafka.intake.route import Route
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.inbox import Entry


class StuckWatch:
    """Remembers how much had finished; `check` reports once when that stays so for `stuck_s` seconds.

    `owned` gives the epochs that there are now, with their routes.
    """

    def __init__(
        self,
        routes: Sequence[Route],
        stuck_s: float,
        owned: Callable[[], Iterable[tuple[Route, Epoch]]],
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
        finished = sum(route.hub.tally.outcomes for route in self._routes)
        # Where records wait for the rate limit, slowness is what the user wanted.
        waiting = any(
            route.hub.tally.backlog_records and route.hub.next_due_s() is None for route in self._routes
        )
        if finished != self._finished or not waiting:
            self._finished, self._moved_s, self._reported = finished, now_s, False
        elif now_s - self._moved_s >= self._stuck_s and not self._reported:
            self._reported = True
            text = stacks_text(dict(self._new_stacks()))
            running = (*running_records(self._owned()), *outliving_calls(self._routes, now_s))
            self._emit(StuckReport(now_s - self._moved_s, running, text))

    def _new_stacks(self) -> Iterator[tuple[str, str]]:
        """Yield where each busy worker is, but for calls past their deadline: those were reported so."""
        for route in self._routes:
            reported = route.attempts.reported_workers() if route.attempts is not None else ()
            for name, stack in route.workers.stacks().items():
                if name not in reported:
                    yield name, stack


def running_records(owned: Iterable[tuple[Route, Epoch]]) -> Iterator[str]:
    """Name the records in flight of these epochs: their handlers run, or an answer is awaited.

    Of a batch the first one of each key.
    """
    for route, epochs in by_route(owned):
        with route.hub.locked() as inboxes:
            first: dict[Hashable, Entry] = {}
            for entry in inboxes.running():
                if entry[EPOCH] in epochs:
                    first.setdefault(inboxes.router.name_of(entry), entry)
            awaited = [
                (held.q[0], held.ticket.decision.reason)
                for held in inboxes.waiting.held
                if held.ticket is not None and held.q and held.q[0][EPOCH] in epochs
            ]
        # Put into words without the lock: a key may be of a user's type.
        yield from map(_named, first.values())
        yield from (f"{_named(entry)} ({reason})" for entry, reason in awaited)


def by_route(owned: Iterable[tuple[Route, Epoch]]) -> list[tuple[Route, set[Epoch]]]:
    """Group epochs by their route: a look at its inboxes is for all of them."""
    grouped: dict[str, tuple[Route, set[Epoch]]] = {}
    for route, epoch in owned:
        grouped.setdefault(route.name, (route, set()))[1].add(epoch)
    return list(grouped.values())


def outliving_calls(routes: Iterable[Route], now_s: float) -> Iterator[str]:
    """Name the calls that still run for an epoch that has ended, with that epoch and their age.

    Each keeps its key: the key's next records wait for it.
    """
    for route in routes:
        with route.hub.locked() as inboxes:
            found = inboxes.outliving.calls()
        for entry in found:
            epoch = entry[EPOCH]
            mark = epoch.received.batches.at(entry[MESSAGE].offset())
            age = "" if mark is None else f", received {seconds(now_s - mark.received_at_s)} ago"
            yield f"{_named(entry)}, epoch {epoch.number}{age}"


def _named(entry: Entry) -> str:
    return f"{entry[EPOCH].partition}@{entry[MESSAGE].offset()} key {describe_key(entry[KEY])}"
