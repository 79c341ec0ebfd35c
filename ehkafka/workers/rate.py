"""The rate limit of one handler: its calls start no faster than its bucket fills.

A worker takes a token before it shows a record, so what waits for one may still be taken back. While there is
none, workers sleep; the poll thread wakes as many as there are tokens, see `Hub.watch`.
"""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# What may run at once after a rest, in seconds of the rate. The poll thread looks
# every millisecond at best; much less would waste tokens of high rates, much more is no even flow.
BURST_S = 0.1


class Pace:
    """A bucket of tokens, for many threads.

    Within any `t` seconds at most `burst_records + rate_per_s * t` records get through. Kept as the time at
    which the bucket is full again: one number, which no number of steps makes inexact.
    """

    def __init__(
        self, rate_per_s: float, clock: Callable[[], float], burst_records: int | None = None
    ) -> None:
        """`burst_records` get through at once after a rest; None: those of `BURST_S`."""
        self.rate_per_s = rate_per_s
        burst_records = burst_records or max(1, math.ceil(rate_per_s * BURST_S))
        # How far ahead of now the full bucket may lie while there is a token left.
        self._headroom_s = (burst_records - 1) / rate_per_s
        self._full_at_s = float("-inf")
        self._clock = clock
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Take a token; False when there is none. Any worker, before it shows a record."""
        with self._lock:
            now_s = self._clock()
            if now_s < self.due_s:
                return False
            self._full_at_s = max(self._full_at_s, now_s) + 1 / self.rate_per_s
            return True

    def give_back(self) -> None:
        """Put a token back that was not used."""
        with self._lock:
            self._full_at_s -= 1 / self.rate_per_s

    @property
    def due_s(self) -> float:
        """When there is a token, or was."""
        return self._full_at_s - self._headroom_s

    @property
    def tokens(self) -> int:
        """How many tokens there are now."""
        now_s = self._clock()
        if now_s < self.due_s:
            return 0
        return 1 + int((self._headroom_s - max(0.0, self._full_at_s - now_s)) * self.rate_per_s)

    @property
    def is_open(self) -> bool:
        """True while there is a token."""
        return self._clock() >= self.due_s
