"""The stream reader for PySpark 4.0 and 4.1, which tell neither the start nor a limit.

The start is remembered from what Spark plans; at a restart it plans an empty range first, which tells it.
The limit is our own. Trigger.AvailableNow asks for the end once and reads up to it in one batch: with a limit
it ends there, with records left, which `last_word` reports. A batch that the
limit has cut carries where the logs ended, because the query's progress has no other place for it.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from ehkafka.spark.one_line import reported_in_one_line
from ehkafka.spark.source.last_word import LastWord
from ehkafka.spark.source.reader_parts import StreamReaderParts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.datasource import InputPartition


class EarlyStreamReader(StreamReaderParts):
    """Reads a stream where `latestOffset` has no arguments."""

    # Whether the query may have ended too early for its user: the trigger of a plain one is not known.
    is_plain = True
    _planned_end: dict[str, Any] | None = None

    @cached_property
    def _last_word(self) -> LastWord:
        return LastWord()

    @reported_in_one_line()
    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802
        """Return the end of the next batch, by the option maxOffsetsPerTrigger."""
        start = self.initialOffset() if self._planned_end is None else self._planned_end
        end = self.batch_end(start, self.options.limit_records)
        # An idle query's offset stays the very text that Spark has: another one would be a batch.
        return end if end == start else self._stream.with_ends(end)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of a batch, and remember its end: the next one begins there."""
        self._planned_end = end
        if self.is_plain and start != end:
            self._last_word.note(end)
        return super().partitions(start, end)

    def stop(self) -> None:
        """Close what the driver opened; nothing is reported after an error."""
        self._last_word.forget()
        super().stop()
