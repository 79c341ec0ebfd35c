"""How long to leave a store alone after a failure, and what is reported of it: once down, once up.

Pure; time comes in as an argument; the mirror's thread alone writes.
"""

from __future__ import annotations

from dataclasses import dataclass

FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 60.0


@dataclass(slots=True)
class Outage:
    """The failures since the last success. `error` is the last one, None while all is well."""

    error: str | None = None
    failed_attempts: int = 0
    not_before_s: float = float("-inf")
    _began_s: float = 0.0

    def failed(self, error: str, now_s: float) -> bool:
        """Take a failure; True when it is the first one."""
        is_first = self.error is None
        if is_first:
            self._began_s, self.failed_attempts = now_s, 0
        wait_s = min(FIRST_WAIT_S * 2.0 ** min(self.failed_attempts, 16), LONGEST_WAIT_S)
        self.error, self.failed_attempts, self.not_before_s = error, self.failed_attempts + 1, now_s + wait_s
        return is_first

    def worked(self, now_s: float) -> float | None:
        """Take a success; return how long the outage was that it ends, None if there was none."""
        if self.error is None:
            return None
        self.error, self.not_before_s = None, float("-inf")
        return now_s - self._began_s
