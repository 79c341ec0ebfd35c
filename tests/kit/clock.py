"""A clock that moves only when asked to, for the simulator and for tests of anything timed.

Pure and single-threaded: the thread that advances the clock runs the timers.
"""

from __future__ import annotations

import heapq
import itertools
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Timer:
    """A call that waits for its time. `cancel` is idempotent and also allowed from another timer."""

    __slots__ = ("_call", "due_s")

    def __init__(self, due_s: float, call: Callable[[], object]) -> None:
        self.due_s = due_s
        self._call: Callable[[], object] | None = call

    @property
    def pending(self) -> bool:
        """Whether the call is still to come: neither run nor cancelled."""
        return self._call is not None

    def cancel(self) -> None:
        """Never run the call, if it has not run yet."""
        self._call = None

    def run(self) -> None:
        """Run the call now unless it ran or was cancelled; the clock does this when the time has come."""
        call, self._call = self._call, None
        if call is not None:
            call()


class VirtualClock:
    """Deterministic time: pass `clock.now_s` where the code takes `time.monotonic`.

    Timers run in order of their time, equal times in order of `call_at`; during its call a timer reads
    exactly its own time, and timers that it adds for a time within the same `advance` run in it too. If
    a call raises, the clock stays at that timer's time with the later timers pending.
    """

    def __init__(self, start_s: float = 0.0) -> None:
        self._now_s = _finite(start_s, "start_s")
        self._timers: list[tuple[float, int, Timer]] = []
        self._added = itertools.count()
        self._advancing = False

    def now_s(self) -> float:
        """Return the current time in seconds; never decreases."""
        return self._now_s

    def call_at(self, when_s: float, call: Callable[[], object]) -> Timer:
        """Run `call` when the clock reaches `when_s`; a time in the past runs at the next `advance`."""
        due_s = max(_finite(when_s, "when_s"), self._now_s)
        timer = Timer(due_s, call)
        heapq.heappush(self._timers, (due_s, next(self._added), timer))
        return timer

    def call_after(self, delay_s: float, call: Callable[[], object]) -> Timer:
        """Run `call` once `delay_s` seconds have passed."""
        return self.call_at(self._now_s + delay_s, call)

    def next_timer_s(self) -> float | None:
        """Return when the next timer is due, `None` without one."""
        while self._timers and not self._timers[0][2].pending:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def advance(self, seconds: float) -> None:
        """Let time pass and run what becomes due, in order. Raises `ValueError` for negative seconds."""
        if _finite(seconds, "seconds") < 0:
            raise ValueError(f"a clock cannot go back by {-seconds} s; pass seconds >= 0")
        self.advance_to(self._now_s + seconds)

    def advance_to(self, when_s: float) -> None:
        """Let time pass until `when_s`. Raises `ValueError` for a time in the past."""
        if _finite(when_s, "when_s") < self._now_s:
            raise ValueError(f"the clock is at {self._now_s} s and cannot go back to {when_s} s")
        if self._advancing:
            raise RuntimeError("a timer advanced the clock that is running it; use call_after instead")
        self._advancing = True
        try:
            self._run_until(when_s)
        finally:
            self._advancing = False
        self._now_s = when_s

    def _run_until(self, when_s: float) -> None:
        while (due_s := self.next_timer_s()) is not None and due_s <= when_s:
            _, _, timer = heapq.heappop(self._timers)
            self._now_s = due_s
            timer.run()


def _finite(seconds: float, name: str) -> float:
    if not math.isfinite(seconds):
        raise ValueError(f"{name} must be a finite number of seconds, not {seconds}")
    return seconds
