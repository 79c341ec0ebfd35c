"""How long a handler's calls take, in buckets: what metrics show of each handler.

Only where it is asked for (`Hub.call_times`). Any worker adds, any thread reads. There is no lock:
CPython interrupts a thread at calls and loops, never between the read and the write of `+=` on an attribute
or an item of a list, so no addition is lost; a reader may see a call in the buckets before the sum has it.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

# Upper ends of the buckets, in seconds: from what a quick handler takes to what a batch may take.
BOUNDS_S: Final = (
    *(10e-6, 100e-6, 1e-3, 5e-3, 10e-3, 25e-3, 50e-3),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0),
)


class CallTimes:
    """One handler's calls. Of quick ones that ran in one go the mean is counted, with their number."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        # One for each bucket, and one for what takes longer than all bounds.
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.sum_s = 0.0

    def timed(self, call: Callable[..., object]) -> Callable[..., object]:
        """Return a function with each of its calls counted."""

        def timed(*arguments: object) -> object:
            began_s = time.perf_counter()
            try:
                return call(*arguments)
            finally:
                self.add(time.perf_counter() - began_s)

        return timed

    def add(self, each_s: float, calls: int = 1) -> None:
        """Count so many calls that took so long each."""
        place = bisect_left(BOUNDS_S, each_s)
        self.counts[place] += calls
        self.sum_s += each_s * calls

    def add_run(self, spent_s: float, calls: int, rest_s_max: float) -> None:
        """Count calls that ran one after another and of which all but the last ended within `rest_s_max`.

        So the one that ended the run keeps its own time, instead of being lost in the others' mean.
        """
        if calls < 2 or spent_s <= rest_s_max:
            if calls:
                self.add(spent_s / calls, calls)
            return
        self.add(rest_s_max / (calls - 1), calls - 1)
        self.add(spent_s - rest_s_max)
