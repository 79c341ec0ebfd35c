"""What is still to be reported of finished batches: a line every few seconds, not one for each. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.events import BatchesFinished

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.records import TopicPartition

    Positions = Mapping[TopicPartition, int]


class BatchLines:
    """Batches since the last line. One thread's."""

    def __init__(self, now_s: float) -> None:
        self._since_s = now_s
        self._batches = 0
        self._records = 0
        self._took_s = 0.0
        self._left: int | None = None

    def add(self, records: int, took_s: float, ends: Positions, latest: Positions) -> None:
        """Take a finished batch: where it ended, and where the logs ended when it was planned."""
        self._batches += 1
        self._records += records
        self._took_s += took_s
        self._left = sum(max(0, end - ends.get(one, 0)) for one, end in latest.items()) if latest else None

    def take(self, now_s: float, at_least_s: float) -> BatchesFinished | None:
        """Return what to tell, None while there is nothing or it is too early."""
        if not self._batches or now_s - self._since_s < at_least_s:
            return None
        event = BatchesFinished(self._batches, self._records, self._took_s, self._left)
        self._since_s, self._batches, self._records, self._took_s = now_s, 0, 0, 0.0
        return event
