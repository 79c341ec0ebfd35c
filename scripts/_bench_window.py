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
# A stall shows in the least of such slices, beside their mean.
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

    @property
    def records(self) -> int:
        """How many were finished in it."""
        return self.finished[-1] - self.finished[0]

    def finished_at(self, at_s: float) -> float:
        """Return how many were finished then, by the samples around it."""
        place = min(max(bisect_left(self.at_s, at_s), 1), len(self.at_s) - 1)
        early_s, late_s = self.at_s[place - 1], self.at_s[place]
        part = (at_s - early_s) / (late_s - early_s)
        return self.finished[place - 1] + (self.finished[place] - self.finished[place - 1]) * part

    def least_slice(self) -> float:
        """Return the least of the window's whole slices ÷ their mean; 0 where there is no whole one."""
        number = int((self.at_s[-1] - self.at_s[0]) / SLICE_S)
        ends = [self.finished_at(self.at_s[0] + place * SLICE_S) for place in range(number + 1)]
        slices = [late - early for early, late in pairwise(ends)]
        return min(slices) / statistics.mean(slices) if slices and any(slices) else 0.0

    def figures(self) -> dict[str, Any]:
        """Return what every measurement by a window tells."""
        took_s = self.at_s[-1] - self.at_s[0]
        return {
            "records": self.records,
            "records_per_s": self.records / took_s,
            "least_slice": self.least_slice(),
        }


def watch(count: Callable[[], int], seconds: float, *, warm_s: float = WARM_S) -> Window:
    """Wait for the first finished record and the warm-up, then look at `count` for so many seconds.

    Raises `TimeoutError` where no record is finished within a minute.
    """
    waits_until_s = time.monotonic() + FIRST_RECORD_S_MAX
    while not count():
        if time.monotonic() > waits_until_s:
            raise TimeoutError(f"No record was finished within {FIRST_RECORD_S_MAX:g} s.")
        time.sleep(SAMPLE_S)
    time.sleep(warm_s)
    window = Window()
    mark(BEGIN)
    window.add(time.monotonic(), count())
    ends_s = window.at_s[0] + seconds
    while window.at_s[-1] < ends_s:
        time.sleep(SAMPLE_S)
        window.add(time.monotonic(), count())
    mark(END)
    return window
