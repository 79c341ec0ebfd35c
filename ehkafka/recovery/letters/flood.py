"""Notices a flood of dead letters: too many in a row, or too large a share of the last records.

One for each handler; its `Failures` ask it, on any worker's thread, before a dead letter is written.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from typing import TYPE_CHECKING

from ehkafka.recovery.policy import LIMIT_WINDOW_RECORDS
from ehkafka.wording import counted

if TYPE_CHECKING:
    from ehkafka.recovery.policy import DeadLetter


class FloodGauge:
    """Counts a handler's dead letters against the limits of its policy."""

    def __init__(self, policy: DeadLetter) -> None:
        self._policy = policy
        self._lock = threading.Lock()
        # Under the lock: how many records had finished at the last dead letter; how many dead letters in a
        # row.
        self._finished = -1
        self._run = 0
        # For each of the latest dead letters: how many records had an outcome before it.
        ratio = policy.ratio_max
        self._allowed = None if ratio is None else math.floor(ratio * LIMIT_WINDOW_RECORDS)
        self._latest: deque[int] = deque(maxlen=None if self._allowed is None else self._allowed + 1)
        self._letters = 0

    def overflow(self, finished_records: int) -> str | None:
        """Count one more dead letter; return which limit it breaks, or None.

        `finished_records` is how many the handler has finished so far.
        """
        with self._lock:
            self._letters += 1
            self._run = 1 if finished_records != self._finished else self._run + 1
            self._finished = finished_records
            if self._policy.run_max is not None and self._run > self._policy.run_max:
                return (
                    f"{counted(self._run, 'record')} in a row failed permanently "
                    f"(run_max={self._policy.run_max})"
                )
            return self._ratio_overflow(finished_records + self._letters)

    def _ratio_overflow(self, outcomes: int) -> str | None:
        if self._allowed is None:
            return None
        self._latest.append(outcomes)
        # A share of few records means nothing: only a full window counts.
        crowded = len(self._latest) > self._allowed and outcomes - self._latest[0] < LIMIT_WINDOW_RECORDS
        if not crowded:
            return None
        return (
            f"{len(self._latest)} of the last {LIMIT_WINDOW_RECORDS} records failed permanently "
            f"(ratio_max={self._policy.ratio_max})"
        )
