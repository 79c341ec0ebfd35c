"""Frames as Arrow batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

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
