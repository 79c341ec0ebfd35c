"""How much work a handler should have at hand. Pure; the poll thread's alone.

Enough for a quarter of a second: more is of no use to the workers, and is received again by the next owner
if this process is killed. The poll thread is late by some milliseconds at worst.
"""

from __future__ import annotations

from typing import Final

# Work for so long.
_AHEAD_S: Final = 0.25
# At least and at most so many records: the most are some looks of the poll thread ahead of any handler.
_RECORDS_MIN, _RECORDS_MAX = 100, 2_500
# The rate is taken over so long at least.
_RATE_S: Final = 0.1


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
