"""What a task tells of its records: one row for each partition, and what a whole batch adds up to.

Rows carry counts, never anything of a record. Made on executors, added up on the driver. Pure.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from ehkafka.records import TopicPartition
from ehkafka.spark.engine.failures import as_text, failure_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyarrow import RecordBatch

    from ehkafka.errors import EhkafkaError

COUNTS = ("received", "finished", "skipped", "dead_lettered", "retried")
_COLUMN = "result"
SCHEMA = f"{_COLUMN} STRING"


class LastRecord(NamedTuple):
    """The last record of a partition in a batch."""

    offset: int
    timestamp_ms: int | None
    leader_epoch: int | None


class PartitionResult(NamedTuple):
    """How one partition's records of one batch ended; `last` is None if none came.

    `retried` counts a task's attempts that failed and were repeated; the task's first partition has it.
    `failure` is the error by which a policy stopped the whole task, `failed_task` its only row.
    """

    topic: str
    partition: int
    received: int = 0
    finished: int = 0
    skipped: int = 0
    dead_lettered: int = 0
    retried: int = 0
    last: LastRecord | None = None
    failure: str | None = None

    @property
    def row(self) -> str:
        """The text that Spark carries to the driver."""
        return json.dumps(self)


class BatchResult(NamedTuple):
    """What a batch's tasks reported together."""

    counts: Mapping[str, int]
    lasts: Mapping[TopicPartition, LastRecord]


def failed_task(error: EhkafkaError) -> PartitionResult:
    """Return the one row of a task that was stopped."""
    return PartitionResult("", -1, failure=as_text(error))


def as_arrow(results: Sequence[PartitionResult]) -> RecordBatch:
    """Return the rows as Spark takes them."""
    import pyarrow as pa  # noqa: PLC0415 - an extra

    return pa.RecordBatch.from_arrays([pa.array([one.row for one in results], pa.string())], [_COLUMN])


def result_in(row: str) -> PartitionResult:
    """Return the result that a row carries."""
    found = PartitionResult(*json.loads(row))
    return found._replace(last=found.last and LastRecord(*found.last))


def failure_in(results: Iterable[PartitionResult]) -> EhkafkaError | None:
    """Return what stopped a batch, the first one reported; None where all of it was handled."""
    return next((failure_of(one.failure) for one in results if one.failure), None)


def batch_result(results: Sequence[PartitionResult]) -> BatchResult:
    """Add up the results of a batch."""
    lasts = {TopicPartition(one.topic, one.partition): one.last for one in results if one.last is not None}
    return BatchResult({name: sum(getattr(one, name) for one in results) for name in COUNTS}, lasts)
