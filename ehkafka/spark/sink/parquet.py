"""Arrow batches as one Parquet file, a row group at a time in memory.

Pure but for what it is given to write to. Used by the thread that runs the task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from io import RawIOBase

# Spark's batches have 10 000 rows; row groups that small make files slow to read.
GROUP_ROWS = 131_072
GROUP_BYTES = 32 * 1024 * 1024


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
