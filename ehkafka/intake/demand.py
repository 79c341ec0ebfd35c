"""How many records to take: as many as a handler should have at hand, and no more at once than are freed.

Pure; the poll thread's alone. Work for a quarter of a second is enough: more is of no use to the workers, and
is received again by the next owner if this process is killed. The poll thread is late by some milliseconds at
worst.

A message counts as a new object that may be part of a cycle, and Python looks through all new ones whenever
there are so many more than were freed. Where handlers are quick, what one `consume()` brought is freed before
the next one brings more: then it need never look, which saves 5 to 17 % of a no-op's CPU time.
"""

from __future__ import annotations

import gc
from typing import Final

# Work for so long.
_AHEAD_S: Final = 0.25
# At least and at most so many records: the most are some looks of the poll thread ahead of any handler.
_RECORDS_MIN, _RECORDS_MAX = 100, 2_500
# The rate is taken over so long at least.
_RATE_S: Final = 0.1
# Of the threshold of Python's collector, for what else is made meanwhile.
_SHARE: Final = 0.9
# Fewer at a time would cost more than they save.
_AT_ONCE_MIN: Final = 500


class Demand:
    """One handler's, by how many records ended lately."""

    def __init__(self) -> None:
        self._rate_per_s = 0.0
        self._seen: tuple[int, float] = (0, float("-inf"))

    def note(self, outcomes: int, now_s: float) -> None:
        """Take into account how many records have ended by now."""
        seen, seen_s = self._seen
        passed_s = now_s - seen_s
        if passed_s < _RATE_S:
            return
        # The mean of this look and those before: a pause of the workers must not empty their line.
        self._rate_per_s += ((outcomes - seen) / passed_s - self._rate_per_s) / 2
        self._seen = outcomes, now_s

    def wanted_records(self) -> int:
        """Return how many records should be at hand."""
        return min(_RECORDS_MAX, max(_RECORDS_MIN, int(self._rate_per_s * _AHEAD_S)))


def records_uncollected(records_max: int) -> int:
    """Return how many of `records_max` to take at once; all where the collector is off, or very eager."""
    threshold = gc.get_threshold()[0] if gc.isenabled() else 0
    fewer = int(_SHARE * threshold)
    return min(records_max, fewer) if fewer >= _AT_ONCE_MIN else records_max
