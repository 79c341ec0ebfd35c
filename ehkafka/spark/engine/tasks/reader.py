"""The engine's source: reads like the plain one, and handles what it reads inside of the same task.

`EngineReader` plans on the driver, in Spark's planning process, and handles in Spark's Python workers. What
it yields are counts, so no record crosses into the JVM. One task has whole partitions: they are never cut.
"""

from __future__ import annotations

import logging
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql.datasource import DataSource

from ehkafka.errors import EhkafkaError, OffsetGapError
from ehkafka.spark.engine.tasks.leaving import end_process_after_task
from ehkafka.spark.engine.tasks.results import SCHEMA, as_arrow, failed_task
from ehkafka.spark.engine.tasks.shipment import app_of, unpack
from ehkafka.spark.engine.tasks.work import TaskWork
from ehkafka.spark.one_line import as_reported
from ehkafka.spark.source.consumers import messages
from ehkafka.spark.source.data_source import SourceReader
from ehkafka.spark.source.options import OF_A_QUERY, options_from
from ehkafka.spark.source.readers import SourcePartition

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from pyarrow import RecordBatch
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

    from ehkafka.spark.engine.signs import Signs
    from ehkafka.spark.engine.tasks.results import PartitionResult
    from ehkafka.spark.engine.tasks.shipment import Shipped
    from ehkafka.spark.engine.tasks.work import Batches
    from ehkafka.spark.source.options import SourceOptions


_WORDS = OF_A_QUERY._replace(
    records="To continue without them, give the app on_out_of_range='earliest'; to begin elsewhere, move the"
    " group (ehkafka offsets reset), and start with new_checkpoint=True if there is a checkpoint.",
    partitions="To continue without them, start with new_checkpoint=True, or --new-checkpoint.",
    logs="To read the new log from its beginning, give the app on_out_of_range='earliest'; to begin"
    " elsewhere, move the group (ehkafka offsets reset), and start with new_checkpoint=True if there is a"
    " checkpoint.",
)
LINES = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


@dataclass(frozen=True, slots=True)
class EngineJob:
    """What one query's source carries: its format's name, the packed app, and the run's signs.

    `ends_here`: what is there when the query begins is all that it handles.
    """

    name: str
    packed: bytes
    signs: Signs
    ends_here: bool


class EngineSource(DataSource):
    """The source of one query; `engine_source` makes the class that Spark is given."""

    job: EngineJob

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return cls.job.name

    def schema(self) -> str:
        """Return the columns of the results."""
        return SCHEMA

    def streamReader(self, schema: StructType) -> EngineReader:  # noqa: ARG002, N802 - Spark's name and call
        """Return the reader. Raises `ConfigurationError` for wrong options."""
        options = options_from(self.options)
        return EngineReader(replace(options, words=_WORDS, grows=True), self.job)


class EngineReader(SourceReader):
    """Plans as the source does, until a stop is asked for; handles what it reads.

    The run's end is our own on every PySpark: before 4.2 Spark's Trigger.AvailableNow is one batch.
    """

    is_plain = False

    def __init__(self, options: SourceOptions, job: EngineJob) -> None:
        super().__init__(options)
        self._job = job

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_job": self._job}

    def batch_end(self, start: dict[str, Any], limit_records: int | None) -> dict[str, Any]:
        """Return the end of the next batch; nothing new once a stop is asked for, or all is handled."""
        signs = self._job.signs
        if signs.stop.exists():
            return self._stream.empty(start)
        if self._job.ends_here:
            self._stream.prepare_available_now()
        end = super().batch_end(start, limit_records)
        if self._job.ends_here and end == start:
            # Spark asks between two batches only, so the one before counts.
            signs.over.touch()
        return end

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """Handle one task's pieces. Raises `EhkafkaError` in one line for what Spark may try again.

        What handlers have ended the task with is its result: they are not to be called again for it.
        """
        assert isinstance(partition, SourcePartition)
        pieces, options = partition.pieces, self.options
        try:
            app = app_of(_shipped(self._job), options.endpoint.endpoint())
            # For the executor's stderr. A set-up of the user's own was made when its modules were imported.
            logging.basicConfig(format=LINES)
            work = TaskWork(app, pieces)
            results = _run(work, messages(options, pieces))
        except EhkafkaError as error:
            raise as_reported(error) from error.__cause__
        return iter([as_arrow(results)])


def _run(work: TaskWork, batches: Iterator[object]) -> list[PartitionResult]:
    """Return a task's rows. Raises what Spark may try again."""
    try:
        # Closed at once: a consumer that a failed task was lent would go on fetching.
        with closing(cast("Generator[Any]", batches)):
            results = work.run(cast("Batches", batches))
    except Exception as error:
        # What a policy has decided counts, whatever else went wrong meanwhile or afterwards. And no other
        # attempt finds what the log has no more.
        failure = work.failure or (error if isinstance(error, OffsetGapError) else None)
        if failure is None:
            raise
        if work.still_running and not end_process_after_task(work.still_running):
            raise failure from failure.__cause__
        return [failed_task(failure)]
    if work.still_running:
        end_process_after_task(work.still_running)
    return results


def engine_source(job: EngineJob) -> type[EngineSource]:
    """Return a source for one query. Spark pickles the class itself, with what belongs to it."""
    # Not to be found in this module by its name, so that it goes by value and takes the job along.
    return type(f"EngineSourceOf_{job.name.replace('-', '_')}", (EngineSource,), {"job": job})


# What this worker process unpacked last: a query's tasks come one after another.
_UNPACKED: dict[str, Shipped] = {}


def _shipped(job: EngineJob) -> Shipped:
    if job.name not in _UNPACKED:
        _UNPACKED.clear()
        _UNPACKED[job.name] = unpack(job.packed)
    return _UNPACKED[job.name]
