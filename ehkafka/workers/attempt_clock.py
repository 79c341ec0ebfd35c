"""Since when attempts run on threads, for handlers with a deadline: a thread cannot be ended.

Workers write it around each call; the poll thread's slow watch reports what is overdue, once, and health
names it for as long as it lasts. A handler that comes back late counts as if it had been in time.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ehkafka.lanes.inbox import EPOCH, KEY, MESSAGE
from ehkafka.lanes.order import describe_key
from ehkafka.records import TopicPartition  # noqa: TC001 - at run time, see `telemetry.snapshot`
from ehkafka.workers.protocol import within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ehkafka.lanes.inbox import Entry


# What a cancelled coroutine may take for its clean-up before its call counts as overdue.
UNWIND_S = 0.25


@dataclass(frozen=True, slots=True)
class OverdueAttempt:
    """A call of a handler on a thread that runs for longer than its deadline."""

    handler: str
    partition: TopicPartition
    offset: int
    key: str
    attempt: int
    running_s: float
    deadline_s: float
    # The worker thread's name.
    worker: str


@dataclass(slots=True, eq=False)
class _RunningAttempt:
    entry: Entry
    number: int
    started_s: float
    thread: str
    # One of many calls on its thread.
    is_task: bool
    is_reported: bool = False

    def seen_at(self, now_s: float, handler: str, deadline_s: float) -> OverdueAttempt:
        partition, offset = self.entry[EPOCH].partition, self.entry[MESSAGE].offset()
        key = describe_key(self.entry[KEY])
        return OverdueAttempt(
            handler=handler,
            partition=partition,
            offset=offset,
            key=key,
            attempt=self.number,
            running_s=now_s - self.started_s,
            deadline_s=deadline_s,
            worker=f"{self.thread} {partition}@{offset} key {key}" if self.is_task else self.thread,
        )


class AttemptClock:
    """The attempts of one handler that run now. `deadline_s` is how long each may take."""

    def __init__(self, handler: str, deadline_s: float, clock: Callable[[], float]) -> None:
        self._handler = handler
        self._deadline_s = deadline_s
        self._clock = clock
        # By thread, or by entry where calls are coroutines. A worker writes its own; others read a copy.
        self._running: dict[int, _RunningAttempt] = {}

    def timed(self, invoke: Callable[[Entry, int], Any], *, is_async: bool) -> Any:
        """Return `invoke` with each call's beginning and end noted.

        A coroutine that swallows its cancellation runs for as long as it likes; a cancelled one gets a
        moment to unwind.
        """
        return within(invoke, partial(self._noting, is_task=is_async), is_async=is_async)

    @contextmanager
    def _noting(self, entry: Entry, number: int, *, is_task: bool) -> Iterator[None]:
        thread = threading.current_thread()
        place = id(entry) if is_task else thread.ident or 0
        started_s = self._clock() + (UNWIND_S if is_task else 0.0)
        self._running[place] = _RunningAttempt(entry, number, started_s, thread.name, is_task)
        try:
            yield
        finally:
            del self._running[place]

    def overdue(self) -> list[OverdueAttempt]:
        """Return the attempts that have run for longer than the deadline."""
        return self._seen(self._overdue())

    def take_unreported(self) -> list[OverdueAttempt]:
        """Return those that no earlier call has returned. Poll thread only."""
        found = [attempt for attempt in self._overdue() if not attempt.is_reported]
        for attempt in found:
            attempt.is_reported = True
        return self._seen(found)

    def reported_workers(self) -> set[str]:
        """Return what runs attempts that `take_unreported` has returned."""
        found = self._seen(one for one in self._overdue() if one.is_reported)
        return {one.worker for one in found}

    def _overdue(self) -> list[_RunningAttempt]:
        limit_s = self._clock() - self._deadline_s
        return [one for one in self._running.copy().values() if one.started_s < limit_s]

    def _seen(self, attempts: Iterable[_RunningAttempt]) -> list[OverdueAttempt]:
        now_s = self._clock()
        return [one.seen_at(now_s, self._handler, self._deadline_s) for one in attempts]
