"""The longest time between two turns of the poll loop, of late: a loop that stands loses its partitions.

Pure; time comes in as an argument. The poll thread writes, any thread reads.
"""

from __future__ import annotations

from typing import Final

# A gap is shown for at least so long and at most twice that: longer than between two looks at the metrics.
WINDOW_S: Final = 60.0


class PollGap:
    """The longest gap of this window and the one before."""

    __slots__ = ("_before_s", "_began_s", "_longest_s")

    def __init__(self, now_s: float) -> None:
        self._began_s = now_s
        self._longest_s = 0.0
        self._before_s = 0.0

    def note(self, gap_s: float, now_s: float) -> None:
        """Take a gap that has just ended."""
        if now_s - self._began_s >= WINDOW_S:
            # What is older than two windows counts no more.
            self._before_s = self._longest_s if now_s - self._began_s < 2 * WINDOW_S else 0.0
            self._longest_s, self._began_s = 0.0, now_s
        self._longest_s = max(self._longest_s, gap_s)

    def longest_s(self, open_s: float) -> float:
        """Return the longest, or the one that is still open."""
        return max(self._longest_s, self._before_s, open_s)
