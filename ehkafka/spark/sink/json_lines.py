"""Arrow batches as JSON lines: one object a row, all columns in every row, UTF-8.

Spark's own `to_json` decides the forms where it has one: binary as base64, decimals as numbers, maps as
objects, NaN and the infinities as the text `NaN`, `Infinity`, `-Infinity`. Times with a zone are UTC with a
`Z`. Text that is no UTF-8 has U+FFFD for what cannot be read, and a time beyond the years 1 to 9999 is null:
what a hostile producer writes must not end the query. Pure but for what it is given to write to.
"""

from __future__ import annotations

import base64
import gzip
import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from ehkafka.spark.sink.map_objects import map_reader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import RawIOBase

_OPTIONS = orjson.OPT_APPEND_NEWLINE | orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS
_GZIP_LEVEL = 5
# The first and the last microsecond of Python's, since 1970.
_TIMES_US = (-62_135_596_800_000_000, 253_402_300_799_999_999)


class JsonLines:
    """Writes batches to a file; `compression` is none or gzip."""

    def __init__(self, file: RawIOBase, compression: str) -> None:
        self._gzip: gzip.GzipFile | None = None
        if compression == "gzip":
            # Without a time, so that equal rows make equal bytes.
            self._gzip = gzip.GzipFile(fileobj=file, mode="wb", compresslevel=_GZIP_LEVEL, mtime=0)
        self._file = self._gzip or file

    def write(self, batch: pa.RecordBatch) -> None:
        """Write a batch's rows."""
        rows = _rows(batch)
        for field in batch.schema:
            if (as_object := map_reader(field.type)) is not None:
                for row in rows:
                    row[field.name] = as_object(row[field.name])
        if any(_has_non_finite(column) for column in batch.columns):
            rows = [_readable(row) for row in rows]
        self._file.write(b"".join(orjson.dumps(row, _encoded, _OPTIONS) for row in rows))

    def close(self) -> None:
        """Write what compression still holds."""
        if self._gzip is not None:
            self._gzip.close()


def _rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    try:
        rows: list[dict[str, Any]] = batch.to_pylist()
    except (UnicodeDecodeError, OverflowError):
        columns = [_tellable(column) for column in batch.columns]
        rows = pa.RecordBatch.from_arrays(columns, schema=batch.schema).to_pylist()
    return rows


def _tellable(column: pa.Array) -> pa.Array:
    """Return a column without what Python cannot say."""
    if pa.types.is_string(column.type):
        raws = column.cast(pa.binary()).to_pylist()
        return pa.array([None if raw is None else raw.decode(errors="replace") for raw in raws], pa.string())
    if pa.types.is_timestamp(column.type) and column.type.unit == "us":
        first, last = _TIMES_US
        times = column.cast(pa.int64())
        is_told = pc.and_(pc.greater_equal(times, first), pc.less_equal(times, last))
        return pc.if_else(is_told, column, pa.scalar(None, column.type))
    return column


def _encoded(value: Any) -> Any:
    """Return what orjson cannot write by itself."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, Decimal):
        return orjson.Fragment(format(value, "f"))
    # Intervals: whatever Python shows.
    return str(value)


def _has_non_finite(array: pa.Array) -> bool:
    """Tell whether there is a NaN or an infinity; orjson would write null for it."""
    if pa.types.is_floating(array.type):
        return bool(pc.any(pc.invert(pc.is_finite(array)), min_count=0).as_py())
    return any(_has_non_finite(inner) for inner in _inner(array))


def _inner(array: pa.Array) -> Iterator[pa.Array]:
    if pa.types.is_struct(array.type):
        yield from array.flatten()
    elif pa.types.is_map(array.type):
        yield array.keys
        yield array.items
    elif pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        yield array.flatten()


def _readable(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {_readable(key): _readable(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_readable(inner) for inner in value]
    return value
