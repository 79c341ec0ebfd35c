"""Arrow batches as a file: JSON lines or Parquet. On the thread that runs the task.

Parquet has a row group at a time in memory. JSON lines have one object a row, all columns in every row, in
UTF-8.

Spark's own `to_json` decides the forms where it has one: binary as base64, decimals as numbers, maps as
objects, NaN and the infinities as the text `NaN`, `Infinity`, `-Infinity`. Times with a zone are UTC with a
`Z`. Text that is not UTF-8 has U+FFFD for what cannot be read, and years beyond 1 to 9999 have a sign, as in
`+12026-11-22`: what a hostile producer writes must not end the query. Intervals are what Python shows. Pure
but for what it is given to write to.
"""

from __future__ import annotations

import base64
import gzip
from decimal import Decimal
from typing import TYPE_CHECKING

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from ehkafka.spark.sink.json_values import json_rows

if TYPE_CHECKING:
    from io import RawIOBase

_OPTIONS = orjson.OPT_APPEND_NEWLINE | orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS
_GZIP_LEVEL = 5
# Spark's batches have 10 000 rows; row groups that small make files slow to read.
GROUP_ROWS = 131_072
GROUP_BYTES = 32 * 1024 * 1024


class JsonLinesWriter:
    """Writes batches to a file; `compression` is none or gzip."""

    def __init__(self, file: RawIOBase, compression: str) -> None:
        self._gzip: gzip.GzipFile | None = None
        if compression == "gzip":
            # Without a time, so that equal rows make equal bytes.
            self._gzip = gzip.GzipFile(fileobj=file, mode="wb", compresslevel=_GZIP_LEVEL, mtime=0)
        self._file = self._gzip or file

    def write(self, batch: pa.RecordBatch) -> None:
        """Write a batch's rows."""
        self._file.write(b"".join(orjson.dumps(row, _encoded, _OPTIONS) for row in json_rows(batch)))

    def close(self) -> None:
        """Write what compression still holds."""
        if self._gzip is not None:
            self._gzip.close()


def _encoded(value: object) -> object:
    """Return what orjson cannot write by itself."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, Decimal):
        return orjson.Fragment(format(value, "f"))
    # Intervals: whatever Python shows.
    return str(value)


class ParquetFile:
    """Writes batches of one schema to a file; `close` writes the end, without which nothing can be read."""

    def __init__(self, file: RawIOBase, schema: pa.Schema, compression: str) -> None:
        self._schema = schema
        self._writer = pq.ParquetWriter(file, schema, compression=compression)
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0
        self._bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Take a batch; writes a row group when enough wait."""
        self._waiting.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= GROUP_ROWS or self._bytes >= GROUP_BYTES:
            self._write_group()

    def close(self) -> None:
        """Write the rows that wait, and the footer."""
        if self._waiting:
            self._write_group()
        self._writer.close()

    def _write_group(self) -> None:
        table = pa.Table.from_batches(self._waiting, self._schema)
        self._writer.write_table(table, row_group_size=max(self._rows, 1))
        self._waiting, self._rows, self._bytes = [], 0, 0
