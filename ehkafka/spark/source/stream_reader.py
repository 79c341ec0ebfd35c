"""The stream reader for PySpark 4.2 and newer: Spark gives the start and the limit of each batch.

Called in Spark's planning process, which lives as long as the query, on one thread; `read` in workers.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from ehkafka.spark.one_line import reported_in_one_line
from ehkafka.spark.source.readers import StreamReaderParts


class SourceStreamReader(StreamReaderParts, SupportsTriggerAvailableNow):
    """Reads a stream, by the start and the limit that Spark gives."""

    @reported_in_one_line()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the end of the next batch, `start` itself when there is nothing new."""
        return self.batch_end(start, limit.max_rows if isinstance(limit, ReadMaxRows) else None)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the option maxOffsetsPerTrigger; Spark leaves it out where a trigger takes all at once."""
        limit_records = self.options.limit_records
        return ReadAllAvailable() if limit_records is None else ReadMaxRows(limit_records)

    @reported_in_one_line()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Note how far the query goes."""
        self._stream.prepare_available_now()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the logs' ends: with a batch's end they show the lag in the query's progress."""
        return self._stream.seen()
