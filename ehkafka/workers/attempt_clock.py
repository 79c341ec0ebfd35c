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
from ehkafka.workers.within import within

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

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
class _Attempt:
    partition: TopicPartition
    offset: int
    key: Hashable
    number: int
    started_s: float
    thread: str
    # One of many calls on its thread.
    is_task: bool = False
    is_reported: bool = False

    @property
    def worker(self) -> str:
        """Name what runs it."""
        if not self.is_task:
            return self.thread
        return f"{self.thread} {self.partition}@{self.offset} key {describe_key(self.key)}"


class AttemptClock:
    """The attempts of one handler that run now. `deadline_s` is how long each may take."""

    def __init__(self, handler: str, deadline_s: float, clock: Callable[[], float]) -> None:
        self._handler = handler
        self._deadline_s = deadline_s
        self._clock = clock
        # By thread, or by entry where calls are coroutines. A worker writes its own; others read a copy.
        self._running: dict[int, _Attempt] = {}

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
        self._running[place] = _Attempt(
            partition=entry[EPOCH].partition,
            offset=entry[MESSAGE].offset(),
            key=entry[KEY],
            number=number,
            started_s=self._clock() + (UNWIND_S if is_task else 0.0),
            thread=thread.name,
            is_task=is_task,
        )
        try:
            yield
        finally:
            del self._running[place]

    def overdue(self) -> list[OverdueAttempt]:
        """Return the attempts that have run for longer than the deadline."""
        return [self._as_value(attempt) for attempt in self._overdue()]

    def take_unreported(self) -> list[OverdueAttempt]:
        """Return those that no earlier call has returned. Poll thread only."""
        found = [attempt for attempt in self._overdue() if not attempt.is_reported]
        for attempt in found:
            attempt.is_reported = True
        return [self._as_value(attempt) for attempt in found]

    def reported_workers(self) -> set[str]:
        """Return what runs attempts that `take_unreported` has returned."""
        return {one.worker for one in self._running.copy().values() if one.is_reported}

    def _overdue(self) -> Iterator[_Attempt]:
        limit_s = self._clock() - self._deadline_s
        return (one for one in self._running.copy().values() if one.started_s < limit_s)

    def _as_value(self, attempt: _Attempt) -> OverdueAttempt:
        return OverdueAttempt(
            handler=self._handler,
            partition=attempt.partition,
            offset=attempt.offset,
            key=describe_key(attempt.key),
            attempt=attempt.number,
            running_s=self._clock() - attempt.started_s,
            deadline_s=self._deadline_s,
            worker=attempt.worker,
        )
