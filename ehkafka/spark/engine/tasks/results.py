"""What a task tells of its records: one row for each partition, and what a whole batch adds up to.

Rows carry counts, never anything of a record. Made on executors, added up on the driver. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from ehkafka.records import TopicPartition
from ehkafka.spark.engine.failures import as_text, failure_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyarrow import RecordBatch

    from ehkafka.errors import EhkafkaError

COUNTS = ("received", "finished", "skipped", "dead_lettered", "retried")
_TYPES = {"topic": "STRING", "partition": "INT", "last_leader_epoch": "INT", "failure": "STRING"}


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """How one partition's records of one batch ended. The last ones: of the last record, None if none came.

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
    last_offset: int | None = None
    last_timestamp_ms: int | None = None
    last_leader_epoch: int | None = None
    failure: str | None = None


# Name → Spark's type of a row's columns.
COLUMNS = {field.name: _TYPES.get(field.name, "BIGINT") for field in fields(PartitionResult)}
SCHEMA = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())


@dataclass(frozen=True, slots=True)
class LastRecord:
    """The last record of a partition in a batch."""

    offset: int
    timestamp_ms: int | None
    leader_epoch: int | None


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What a batch's tasks reported together."""

    counts: Mapping[str, int]
    lasts: Mapping[TopicPartition, LastRecord]


def failed_task(error: EhkafkaError) -> PartitionResult:
    """Return the one row of a task that was stopped."""
    return PartitionResult("", -1, failure=as_text(error))


def as_arrow(results: Sequence[PartitionResult]) -> RecordBatch:
    """Return the rows as Spark takes them."""
    import pyarrow as pa  # noqa: PLC0415 - an extra

    kinds = {"STRING": pa.string(), "INT": pa.int32(), "BIGINT": pa.int64()}
    schema = pa.schema([(name, kinds[kind]) for name, kind in COLUMNS.items()])
    columns = [pa.array([getattr(one, field.name) for one in results], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def failure_in(rows: Iterable[Mapping[str, Any]]) -> EhkafkaError | None:
    """Return what stopped a batch, the first one reported; None where all of it was handled."""
    return next((failure_of(row["failure"]) for row in rows if row["failure"]), None)


def batch_result(rows: Sequence[Mapping[str, Any]]) -> BatchResult:
    """Add up the rows of a batch."""
    return BatchResult(
        {name: sum(row[name] for row in rows) for name in COUNTS},
        {
            TopicPartition(row["topic"], row["partition"]): LastRecord(
                row["last_offset"], row["last_timestamp_ms"], row["last_leader_epoch"]
            )
            for row in rows
            if row["last_offset"] is not None
        },
    )
