"""What Spark calls with the rows of each batch, on the driver: the one action that runs the handlers.

A task that a policy has stopped gives a row that says so, and fails here: a failed task would be retried
by Spark (`spark.task.maxFailures`), and so would call its handlers again. A batch that fails here ends the
query, and Spark's checkpoint does not take it as done.

Called on a thread of the query's own; the thread that follows it reads `failure` and takes the results.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NoReturn

from ehkafka.spark.engine.failures import failure_of
from ehkafka.spark.engine.tasks.results import batch_result, failure_in, result_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
        _leave_to_us(logging.getLogger("py4j.clientserver"))

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


def _leave_to_us(logger: logging.Logger) -> None:
    """Keep py4j from logging a traceback of what the run raises as one sentence."""
    if _is_news not in logger.filters:
        logger.addFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, BatchFailedError)
