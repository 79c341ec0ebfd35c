"""What a task tells of its records: one row for each partition, and what a whole batch adds up to.

Rows carry counts, never anything of a record. Made on executors, added up by Spark as observed metrics, read
on the driver from a query's progress.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from ehkafka.errors import EngineError
from ehkafka.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyarrow import RecordBatch
    from pyspark.sql import DataFrame

OBSERVED = "ehkafka"
"""The name of the observed metrics in a query's progress."""
COUNTS = ("received", "finished", "skipped", "dead_lettered", "retried")
SCHEMA = (
    "topic STRING, partition INT, received BIGINT, finished BIGINT, skipped BIGINT, dead_lettered BIGINT, "
    "retried BIGINT, last_offset BIGINT, last_timestamp_ms BIGINT, last_leader_epoch INT"
)
_LASTS = "lasts"


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """How one partition's records of one batch ended. The last ones: of the last record, None if none came.

    `retried` counts a task's attempts that failed and were made again; the task's first partition has it.
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


@dataclass(frozen=True, slots=True)
class LastRecord:
    """The last record of a partition in a batch."""

    offset: int
    timestamp_ms: int | None
    leader_epoch: int | None


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What a batch's tasks told together."""

    counts: Mapping[str, int]
    lasts: Mapping[TopicPartition, LastRecord]


def as_arrow(results: Sequence[PartitionResult]) -> RecordBatch:
    """Return the rows as Spark takes them."""
    import pyarrow as pa  # noqa: PLC0415 - an extra

    kinds = {
        "topic": pa.string(),
        "partition": pa.int32(),
        "last_leader_epoch": pa.int32(),
    }
    names = [field.name for field in fields(PartitionResult)]
    schema = pa.schema([(name, kinds.get(name, pa.int64())) for name in names])
    columns = [
        pa.array([getattr(one, name) for one in results], kinds.get(name, pa.int64())) for name in names
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def observed(frame: DataFrame) -> DataFrame:
    """Return the frame with its rows added up on the way: no second action, which would run all twice."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - an extra

    sums = [sql.coalesce(sql.sum(name), sql.lit(0)).alias(name) for name in COUNTS]
    last = sql.struct("topic", "partition", "last_offset", "last_timestamp_ms", "last_leader_epoch")
    return frame.observe(OBSERVED, *sums, sql.collect_list(last).alias(_LASTS))


def batch_result(progress: Mapping[str, Any]) -> BatchResult | None:
    """Read what a progress has observed; None where no batch ran. Raises `EngineError` for another shape."""
    row = (progress.get("observedMetrics") or {}).get(OBSERVED)
    if row is None:
        return None
    try:
        counts = {name: int(row[name] or 0) for name in COUNTS}
        lasts = {
            TopicPartition(one["topic"], one["partition"]): LastRecord(
                one["last_offset"], one.get("last_timestamp_ms"), one.get("last_leader_epoch")
            )
            for one in row[_LASTS]
            if one.get("last_offset") is not None
        }
    except (KeyError, TypeError, ValueError) as error:
        raise EngineError(
            f"Spark's progress has other metrics than ours: {error!r}. Please report it."
        ) from error
    return BatchResult(counts, lasts)
