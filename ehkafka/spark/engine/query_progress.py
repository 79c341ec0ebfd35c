"""What a query tells of its batches, each once, and the lines of the log about them: one every few seconds.

On the thread that follows the query; calls Java and keeps nothing but where it was. The query itself is
asked, in the order of its batches, not heard from a listener: its events may be dropped, or come after the
stop.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ehkafka.events import BatchesFinished
from ehkafka.spark.engine.failures import is_too_late
from ehkafka.spark.source import offsets
from ehkafka.spark.source.picture import QueryPicture

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.streaming.query import StreamingQuery

    from ehkafka.records import TopicPartition

    Positions = Mapping[TopicPartition, int]


class QueryProgress:
    """What was seen of a query's progress. One thread's, except the picture."""

    def __init__(self) -> None:
        # The last progress of any kind, and the last batch with records.
        self._seen_at = ""
        self._seen_batch = -1
        # For any thread.
        self.picture = QueryPicture()

    def is_for_want_of_time(self, query: StreamingQuery) -> bool:
        """Tell whether a query has ended before it began because the process that plans it was slow."""
        return not self._seen_at and is_too_late(str(query.exception()))

    def new(self, query: StreamingQuery) -> list[dict[str, Any]]:
        """Return what it has reported since the last look.

        By its time: a look that found nothing new has the number of the batch that comes next. Never by what
        is later: the machine's clock may be set back.
        """
        java: Any = query._jsq  # noqa: SLF001 - its JSON, which PySpark would take apart
        last = java.lastProgress()
        if last is None or (newest := json.loads(last.json()))["timestamp"] == self._seen_at:
            return []
        if newest["numInputRows"] and newest["batchId"] == self._seen_batch + 1:
            return [newest]
        known = [json.loads(one.json()) for one in java.recentProgress()]
        seen = [number for number, one in enumerate(known, 1) if one["timestamp"] == self._seen_at]
        return known[seen[-1] :] if seen else known

    def take(self, progress: dict[str, Any], *, is_batch: bool) -> None:
        """Note that it was seen; `is_batch`: it is of a batch with records."""
        self._seen_at = progress["timestamp"]
        self.picture.take(progress)
        if is_batch:
            self._seen_batch = progress["batchId"]


def offset_of(reported: Any) -> offsets.StreamOffset:
    """Return the offset that a progress tells of its source; one without positions where it tells none."""
    if reported is None:
        return offsets.StreamOffset()
    return offsets.StreamOffset.from_json(reported if isinstance(reported, dict) else json.loads(reported))


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
