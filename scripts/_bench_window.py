"""Measures by a window: how many records were finished at which time, while everything goes on steadily.

What is begun and not finished is the same at both ends, so slow handlers on many workers need no long run.
"""

from __future__ import annotations

import statistics
import time
from bisect import bisect_left
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from _bench_marks import BEGIN, END, mark

if TYPE_CHECKING:
    from collections.abc import Callable

SAMPLE_S = 0.02
# Before what counts: the first records have come, caches are warm.
WARM_S = 1.0
FIRST_RECORD_S_MAX = 60.0
# A stall shows in the least of such slices, next to their mean.
SLICE_S = 0.25


class Window:
    """Times and what was finished by then, both rising."""

    def __init__(self) -> None:
        self.at_s: list[float] = []
        self.finished: list[int] = []

    def add(self, at_s: float, finished: int) -> None:
        """Note how many are finished."""
        self.at_s.append(at_s)
        self.finished.append(finished)

    def finished_at(self, at_s: float) -> float:
        """Return how many were finished then, by the samples around it."""
        place = min(max(bisect_left(self.at_s, at_s), 1), len(self.at_s) - 1)
        early_s, late_s = self.at_s[place - 1], self.at_s[place]
        part = (at_s - early_s) / (late_s - early_s)
        return self.finished[place - 1] + (self.finished[place] - self.finished[place - 1]) * part

    def figures(self) -> dict[str, Any]:
        """Return what every measurement by a window tells."""
        records = self.finished[-1] - self.finished[0]
        return {"records": records, "records_per_s": records / (self.at_s[-1] - self.at_s[0])}


def watch(count: Callable[[], int], seconds: float, *, warm_s: float = WARM_S) -> Window:
    """Wait for the first finished record and the warm-up, then look at `count` for so many seconds.

    Raises `TimeoutError` where no record is finished within a minute.
    """
    _wait_for_first(count)
    time.sleep(warm_s)
    window = Window()
    window.add(time.monotonic(), count())
    mark(BEGIN)
    ends_s = window.at_s[0] + seconds
    while window.at_s[-1] < ends_s:
        time.sleep(SAMPLE_S)
        window.add(time.monotonic(), count())
    mark(END)
    return window


class EachRecord:
    """When each record was finished, noted by the handler itself.

    Where threads compute, who looks from outside waits long for the interpreter's lock, and what the engine
    has counted comes in lumps: neither tells of a slice.
    """

    def __init__(self) -> None:
        self.at_s: list[float] = []

    def noted(self, handle: Callable[[Any], None]) -> Callable[[Any], None]:
        """Return a handler that notes each end of the given one."""
        note, clock = self.at_s.append, time.monotonic

        def noting(record: Any) -> None:
            handle(record)
            note(clock())

        return noting

    def watch(self, seconds: float) -> dict[str, Any]:
        """Wait for the first record and the warm-up, then for so many seconds; return their figures."""
        _wait_for_first(lambda: len(self.at_s))
        time.sleep(WARM_S)
        begun_s = time.monotonic()
        mark(BEGIN)
        time.sleep(seconds)
        ended_s = time.monotonic()
        mark(END)
        within = sorted(at_s for at_s in self.at_s.copy() if begun_s <= at_s < ended_s)
        return {
            "records": len(within),
            "records_per_s": len(within) / (ended_s - begun_s),
            "least_slice": _least_slice(within, begun_s, ended_s),
        }


def _least_slice(finished_s: list[float], begun_s: float, ended_s: float) -> float:
    """Return the least of the whole slices ÷ their mean; 0 where there is no whole one."""
    number = int((ended_s - begun_s) / SLICE_S)
    ends = [bisect_left(finished_s, begun_s + place * SLICE_S) for place in range(number + 1)]
    slices = [late - early for early, late in pairwise(ends)]
    return min(slices) / statistics.mean(slices) if any(slices) else 0.0


def _wait_for_first(count: Callable[[], int]) -> None:
    waits_until_s = time.monotonic() + FIRST_RECORD_S_MAX
    while not count():
        if time.monotonic() > waits_until_s:
            raise TimeoutError(f"No record was finished within {FIRST_RECORD_S_MAX:g} s.")
        time.sleep(SAMPLE_S)
