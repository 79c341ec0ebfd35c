"""A query's batches on the driver: the one action that runs the handlers, and what Spark tells of them.

A task that a policy has stopped gives a row that says so, and fails here: a failed task would be retried
by Spark (`spark.task.maxFailures`), and so would call its handlers again. A batch that fails here ends the
query, and Spark's checkpoint does not take it as done.

Spark calls `Batches` on a thread of the query's own; the thread that follows it reads `failure` and takes the
results. That thread asks the query for its progress, in the order of its batches: a listener's events may be
dropped, or come after the stop.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, NoReturn

from ehkafka.spark.engine.failures import failure_of, is_too_late
from ehkafka.spark.engine.tasks.results import batch_result, failure_in, result_in
from ehkafka.spark.source.picture import QueryPicture

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from ehkafka.errors import EhkafkaError
    from ehkafka.spark.engine.tasks.results import BatchResult


class BatchFailedError(Exception):
    """Fails a batch inside of Spark; what happened is in `Batches.failure`."""


class Batches:
    """The batches of one query. Given to `foreachBatch`."""

    def __init__(self) -> None:
        # Set once, by the query's thread.
        self.failure: EhkafkaError | None = None
        # Put there by the query's thread before a batch counts, taken out by the following one after that.
        self._results: dict[int, BatchResult] = {}
        # Otherwise py4j would log a traceback of what the run raises as one sentence.
        logger = logging.getLogger("py4j.clientserver")
        if _is_news not in logger.filters:
            logger.addFilter(_is_news)

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Run a batch. Raises `BatchFailedError`."""
        try:
            # Once: a second action would run the handlers a second time.
            results = [result_in(row[0]) for row in frame.collect()]
        except Exception as error:
            self._fail(failure_of(str(error)))
        if (failure := failure_in(results)) is not None:
            self._fail(failure)
        self._results[batch] = batch_result(results)

    def take(self, batch: int) -> BatchResult | None:
        """Return what a finished batch was, once; None for one that had nothing to handle."""
        return self._results.pop(batch, None)

    def _fail(self, failure: EhkafkaError) -> NoReturn:
        self.failure = failure
        raise BatchFailedError(failure) from None


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


def _is_news(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, BatchFailedError)
