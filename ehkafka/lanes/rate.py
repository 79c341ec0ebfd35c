"""How often a handler may be called: a token bucket. Pure; time comes in as an argument."""

from __future__ import annotations


class TokenBucket:
    """Lets `rate_per_s` records a second through, and up to `burst_records` at once after a rest.

    Within any `t` seconds at most `burst_records + rate_per_s * t` get through. Kept as the time at which
    the bucket is full again: one number, which no number of steps makes inexact.
    """

    __slots__ = ("_full_at_s", "_headroom_s", "_step_s")

    def __init__(self, rate_per_s: float, burst_records: int) -> None:
        self._step_s = 1.0 / rate_per_s
        # How far ahead of now the full bucket may lie while there is a token left.
        self._headroom_s = (burst_records - 1) * self._step_s
        self._full_at_s = float("-inf")

    def take(self, now_s: float) -> bool:
        """Take a token; False when there is none."""
        if now_s < self.due_s:
            return False
        self._full_at_s = max(self._full_at_s, now_s) + self._step_s
        return True

    def give_back(self) -> None:
        """Put a token back that was not used."""
        self._full_at_s -= self._step_s

    @property
    def due_s(self) -> float:
        """When there is a token, or was."""
        return self._full_at_s - self._headroom_s
