"""Chunks or lanes: decided by what records cost. Pure; time comes in as an argument.

Chunks are left when the mean cost of their records is no longer small, and retried when a worker has
seen cheap records in lanes. A trial that soon ends costs something, so each makes the next one come later.
"""

from __future__ import annotations

# A mean above the first ends the chunks; a turn of lanes below the second lets them be tried. A record costs
# some more in lanes: 16 µs of Python 18 to 20. There, streams reach half of what one worker does with chunks,
# and for handlers that wait so briefly as much: a switch of threads takes as long.
SLOW_S = 30e-6
QUICK_S = 22e-6
# The mean is that of about so many records, the newest.
MEMORY_RECORDS = 4_000
# How long lanes are kept after chunks were left, at least and at most.
PAUSE_MIN_S = 10e-3
PAUSE_MAX_S = 1.0


class ExpressMode:
    """Any worker tells it what it saw; a lost update does no harm."""

    def __init__(self, patience: float = 1.0) -> None:
        """`patience`: how many times as much records may cost as those of single calls."""
        self.on = False
        self._patience = patience
        self._spent_s = 0.0
        self._records = 0.0
        self._since_s = 0.0
        self._pause_s = PAUSE_MIN_S
        self._not_before_s = float("-inf")

    def note_chunk(self, spent_s: float, records: int, now_s: float) -> None:
        """Hear how long so many records of a chunk took."""
        if not self.on:
            return
        self._spent_s += spent_s
        self._records += records
        if self._spent_s > SLOW_S * self._patience * self._records:
            self._leave(now_s)
        elif self._records > MEMORY_RECORDS:
            self._spent_s /= 2
            self._records /= 2

    def _leave(self, now_s: float) -> None:
        self.on = False
        long_ago = now_s - self._since_s > PAUSE_MAX_S
        self._pause_s = PAUSE_MIN_S if long_ago else min(2 * self._pause_s, PAUSE_MAX_S)
        self._not_before_s = now_s + self._pause_s

    def note_lanes(self, cost_s: float, now_s: float) -> None:
        """Hear the mean cost of a record in a turn of lanes."""
        if self.on or cost_s > QUICK_S * self._patience or now_s < self._not_before_s:
            return
        self._spent_s = self._records = 0.0
        self._since_s = now_s
        self.on = True
