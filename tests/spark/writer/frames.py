"""Frames as Arrow batches, and the rules that their rows must satisfy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ehkafka.spark.writer.rows import Rules

if TYPE_CHECKING:
    from collections.abc import Sequence

TYPES = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
}


def frame(**columns: Sequence[Any]) -> pa.RecordBatch:
    """Return an Arrow batch as Spark makes it; a column's type follows from its name."""
    return pa.record_batch([pa.array(one, TYPES[name]) for name, one in columns.items()], names=[*columns])


def rules(topic: str | None = "readings", bytes_max: int = 1_000, **partitions: int) -> Rules:
    """Return the rules for a frame's partition 3, with so many partitions of each topic."""
    return Rules(topic, bytes_max, 3, lambda name: (partitions or {"readings": 4}).get(name, 0))
