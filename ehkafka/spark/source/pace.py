"""How long a stream's small batches wait for more records: minOffsetsPerTrigger and maxTriggerDelay."""

from __future__ import annotations

import time
from math import inf


class BatchPace:
    """When the last batch of this run began. The first one never waits."""

    def __init__(self, least_records: int, delay_s_max: float) -> None:
        self._least_records = least_records
        self._delay_s_max = delay_s_max
        self._last_s = -inf

    def waits(self, new_records: int) -> bool:
        """Tell whether no batch is to begin yet; where it may, it is taken to begin now."""
        now_s = time.monotonic()
        if 0 < new_records < self._least_records and now_s < self._last_s + self._delay_s_max:
            return True
        if new_records:
            self._last_s = now_s
        return False
