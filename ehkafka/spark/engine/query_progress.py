"""What a query tells of its batches, each once.

On the thread that follows the query; calls Java and keeps nothing but where it was. The query itself is
asked, in the order of its batches, not heard from a listener: its events may be dropped, or come after the
stop.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ehkafka.spark.engine.failures import is_too_late
from ehkafka.spark.source.picture import QueryPicture

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


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
