"""One task: its rows become staged blocks of one blob, which readers do not see yet.

Runs on an executor, in Spark's Python worker, on the thread that runs the task. May run more than once for
the same rows, at the same time even; only the attempt whose message reaches the driver counts. The ids of
blocks are of this attempt alone: others stage blocks for the very same blob, and the driver commits those of
one of them.
"""

from __future__ import annotations

import io
import uuid
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext

from ehkafka.errors import ConfigurationError
from ehkafka.spark.sink.container import opened
from ehkafka.spark.sink.data_source import Staged
from ehkafka.spark.sink.files import JsonLinesWriter, ParquetFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from _typeshed import ReadableBuffer

    from ehkafka.spark.sink.options import SinkOptions

# Spark sets both for the tasks of a streaming batch; documented is neither.
BATCH_PROPERTY = "streaming.sql.batchId"
QUERY_PROPERTY = "sql.streaming.queryId"
BLOCKS_MAX = 50_000  # of the service


def stage(options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> Staged:
    """Stage all rows of this task; return what the driver commits."""
    query, batch, partition = _where()
    name = options.data_blob(batch, partition)
    container = opened(options.place)
    blob = StagedBlob(lambda block, content: container.stage(name, block, content), options.block_bytes)
    rows = _write(options, blob, batches)
    blocks = blob.finish()
    return Staged(query, batch, partition, name if blocks else "", blocks, rows, blob.tell())


def _write(options: SinkOptions, blob: StagedBlob, batches: Iterator[pa.RecordBatch]) -> int:
    """Write the rows; nothing at all where there are none, so that empty tasks make no blobs."""
    rows = 0
    file: ParquetFile | JsonLinesWriter | None = None
    for given in batches:
        if given.num_rows == 0:
            continue
        batch = in_utc(given)
        if file is None:
            file = _file(options, blob, batch.schema)
        file.write(batch)
        rows += batch.num_rows
    if file is not None:
        file.close()
    return rows


def _file(options: SinkOptions, blob: StagedBlob, schema: pa.Schema) -> ParquetFile | JsonLinesWriter:
    if options.file_format == "parquet":
        return ParquetFile(blob, schema, options.compression)
    return JsonLinesWriter(blob, options.compression)


def _where() -> tuple[str, int, int]:
    """Return the query, its batch and this task's partition, as Spark tells them."""
    context = TaskContext.get()
    query = context.getLocalProperty(QUERY_PROPERTY) if context else None
    batch = context.getLocalProperty(BATCH_PROPERTY) if context else None
    if context is None or not query or batch is None or not batch.isdigit():
        raise ConfigurationError(
            f"ehkafka-blob names its blobs by the batch's number, and this Spark gives its tasks no number: "
            f"the local properties {BATCH_PROPERTY} and {QUERY_PROPERTY} are not there. Use the micro-batch "
            "trigger of an Apache Spark 4, or write with foreachBatch"
        )
    return query, int(batch), context.partitionId()


def in_utc(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with every zoned time in UTC, at any depth; the moments stay the same.

    What a session shows them in is not for a file that others read.
    """
    schema = pa.schema([field.with_type(_utc(field.type)) for field in batch.schema])
    return batch if schema.equals(batch.schema) else batch.cast(schema)


def _utc(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp(kind.unit, "UTC") if kind.tz is not None else kind
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_utc(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_field(kind.key_field), _field(kind.item_field))
    if pa.types.is_list(kind):
        return pa.list_(_field(kind.value_field))
    return kind


def _field(field: pa.Field) -> pa.Field:
    return field.with_type(_utc(field.type))


class StagedBlob(io.RawIOBase):
    """A file to write to; `stage(block_id, content)` is called for each full block. `finish` ends it."""

    def __init__(self, stage: Callable[[str, bytes], object], block_bytes: int) -> None:
        self._stage = stage
        self._block_bytes = block_bytes
        self._attempt = uuid.uuid4().hex
        self._pending = bytearray()
        self._position = 0
        self.blocks: list[str] = []

    def writable(self) -> bool:
        """Tell pyarrow and gzip that this is a file for writing."""
        return True

    def write(self, content: ReadableBuffer, /) -> int:
        """Take bytes; stages what fills a block."""
        view = memoryview(content).cast("B")
        self._pending += view
        self._position += len(view)
        while len(self._pending) >= self._block_bytes:
            block = bytes(self._pending[: self._block_bytes])
            del self._pending[: self._block_bytes]
            self._stage_block(block)
        return len(view)

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self._position

    def finish(self) -> tuple[str, ...]:
        """Stage the rest and return the ids of all blocks, in order."""
        if self._pending:
            self._stage_block(bytes(self._pending))
            self._pending.clear()
        return tuple(self.blocks)

    def _stage_block(self, block: bytes) -> None:
        if len(self.blocks) == BLOCKS_MAX:
            raise ConfigurationError(
                f"One task's rows are more than {BLOCKS_MAX} blocks of {self._block_bytes} bytes, which is "
                "all that a blob can have: repartition the stream, or raise blockBytes"
            )
        # All ids of a blob have the same length: the service asks for that.
        identity = f"{self._attempt}-{len(self.blocks):05d}"
        self._stage(identity, block)
        self.blocks.append(identity)
