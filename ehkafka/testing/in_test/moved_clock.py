"""The clock of a test: real time, and further when the test moves it. Any thread."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from ehkafka.errors import ConfigurationError
from ehkafka.settings.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable


# All in all. Beyond, dates end, and seconds lose the parts by which the app counts.
MOVED_S_MAX = 100 * 365.25 * 86_400


class MovedClock:
    """Real time and what it was moved by. `clock` is what a run takes."""

    def __init__(self) -> None:
        # Written under the lock; a float, so that it may be read without.
        self._moved_s = 0.0
        self._lock = threading.Lock()
        self._wakers: dict[int, Callable[[], object]] = {}
        self._made = 0
        self.clock = Clock(now_s=self.now_s, wall_s=self.wall_s, on_jump=self._on_jump)

    def now_s(self) -> float:
        """Return seconds that only rise."""
        return time.monotonic() + self._moved_s

    def wall_s(self) -> float:
        """Return seconds since 1970."""
        return time.time() + self._moved_s

    def left_s(self) -> float:
        """Return by how much it may still be moved."""
        return MOVED_S_MAX - self._moved_s

    def move(self, seconds: float) -> None:
        """Let so many seconds have passed, and wake who sleeps."""
        with self._lock:
            self._moved_s += seconds
            wakers = list(self._wakers.values())
        for wake in wakers:
            wake()

    def _on_jump(self, wake: Callable[[], object]) -> Callable[[], object]:
        with self._lock:
            self._made += 1
            number = self._made
            self._wakers[number] = wake
        return lambda: self._wakers.pop(number, None)


def checked_seconds(seconds: float, left_s: float = MOVED_S_MAX) -> float:
    """Return by how much a clock may be moved, of `left_s` at most. Raises `ConfigurationError`."""
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not seconds >= 0:  # not a number is neither
        raise ConfigurationError(f"advance({seconds!r}): give seconds, 0 or more: a clock does not go back.")
    if seconds > left_s:
        raise ConfigurationError(f"advance({seconds!r:.40}): a test's clock goes 100 years ahead at most.")
    return float(seconds)
