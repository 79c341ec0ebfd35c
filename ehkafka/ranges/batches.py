"""Records as Arrow columns.

The hot path of a reader: whole columns are built from what the messages give, with as little work for each
record as can be, and out of buffers: for the first Python value that pyarrow converts it loads pandas, which
takes a process a third of a second. Types and field names are those of Spark's own Kafka connector, because
Spark compares them. One thread.
"""

from __future__ import annotations

import logging
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from confluent_kafka.cimpl import Message

from ehkafka.errors import EhkafkaError
from ehkafka.headers.taking import take_headers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ehkafka.headers.taking import Headers
    from ehkafka.ranges.places import Piece

    # Given a record's headers; returns them with UTF-8 as their values.
    Decode = Callable[[Headers], Headers]


def _headers_of(value: pa.DataType) -> pa.DataType:
    pair = pa.struct([pa.field("key", pa.string()), pa.field("value", value)])
    return pa.list_(pa.field("element", pair))


TYPES: Mapping[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": _headers_of(pa.binary()),
}
# A reader's cost of a batch is spread over so many rows; the bytes bound its memory.
BATCH_RECORDS = 20_000
BATCH_BYTES = 16 * 1024 * 1024
# Offsets into a column's bytes are 32 bits wide.
_COLUMN_BYTES_MAX = 2**31 - 1
# A producer may write any number; so many milliseconds are still microseconds in 64 bits.
_MILLISECONDS_MAX = (2**63 - 1) // 1000
# Topics with a timestamp too far that was logged.
_TOO_FAR: set[str] = set()
_LOG = logging.getLogger("ehkafka.ranges")


def record_batches(
    columns: Sequence[str],
    messages: Iterable[tuple[Piece, list[Message]]],
    decode: Decode | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the messages in their order as batches of `BATCH_RECORDS` rows or `BATCH_BYTES` at most.

    One list is not cut: it may have more. Its messages are read and dropped at once, its columns wait; an
    error of the reading is raised behind the last of them. With `decode` the values of headers are text.
    """
    schema = arrow_schema(columns, texts=decode is not None)
    kept: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    try:
        for piece, records in messages:
            if not records:
                continue
            batch = record_batch(schema, piece, records, decode)
            rows += len(records)
            size_bytes += batch.nbytes
            if kept and (rows > BATCH_RECORDS or size_bytes > BATCH_BYTES):
                yield _joined(kept)
                kept, rows, size_bytes = [], len(records), batch.nbytes
            kept.append(batch)
    except EhkafkaError:
        # Retention may take these before they are read again.
        if kept:
            yield _joined(kept)
        raise
    if kept:
        yield _joined(kept)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    # `concat_batches` is younger than the oldest pyarrow that is taken.
    pool = pa.system_memory_pool()  # it hands out again the pages of a batch that was freed
    joined: pa.RecordBatch = pa.Table.from_batches(batches).combine_chunks(pool).to_batches()[0]
    return joined


def arrow_schema(columns: Sequence[str], *, texts: bool = False) -> pa.Schema:
    """Return the Arrow schema of these columns; with `texts` the values of headers are text."""
    types = {**TYPES, "headers": _headers_of(pa.string())} if texts else TYPES
    return pa.schema([pa.field(name, types[name]) for name in columns])


def record_batch(
    schema: pa.Schema, piece: Piece, records: list[Message], decode: Decode | None = None
) -> pa.RecordBatch:
    """Return the records, all of one piece and in offset order, as one batch."""
    batch = _Batch(piece, records, decode)
    return pa.RecordBatch.from_arrays([_COLUMNS[name](batch) for name in schema.names], schema=schema)


class _Batch:
    """Records of one piece; the timestamps are read once for two columns."""

    __slots__ = ("_times", "decode", "piece", "records")

    def __init__(self, piece: Piece, records: list[Message], decode: Decode | None) -> None:
        self.piece = piece
        self.records = records
        self.decode = decode
        self._times: np.ndarray[Any, Any] | None = None

    @property
    def times(self) -> np.ndarray[Any, Any]:
        """Pairs of librdkafka's timestamp type and milliseconds."""
        if self._times is None:
            flat = chain.from_iterable(map(Message.timestamp, self.records))
            count = len(self.records)
            self._times = np.fromiter(flat, np.int64, 2 * count).reshape(count, 2)
        return self._times


def _topics(batch: _Batch) -> pa.Array:
    name, count = batch.piece.topic.encode(), len(batch.records)
    ends = np.arange(0, (count + 1) * len(name), len(name), dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(ends), pa.py_buffer(name * count)])


def _offsets(batch: _Batch) -> pa.Array:
    records, count = batch.records, len(batch.records)
    first, last = records[0].offset() or 0, records[-1].offset() or 0
    # In offset order: without a gap between the two ends there is none at all.
    if last - first == count - 1:
        return _numbers(np.arange(first, last + 1, dtype=np.int64), pa.int64())
    return _numbers(np.fromiter(map(Message.offset, records), np.int64, count), pa.int64())


def _timestamps(batch: _Batch) -> pa.Array:
    milliseconds = batch.times[:, 1]
    is_too_far = (milliseconds > _MILLISECONDS_MAX) | (milliseconds < -_MILLISECONDS_MAX)
    # What microseconds cannot say is null: a record of a hostile producer must not end the reading.
    nulls = is_too_far if is_too_far.any() else None
    if nulls is not None:
        _warn_of(batch.records[int(is_too_far.argmax())])
        milliseconds = np.where(is_too_far, 0, milliseconds)
    return _numbers(milliseconds * 1000, TYPES["timestamp"], nulls)


def _warn_of(record: Message) -> None:
    """Log a topic's first timestamp that is too far, once in a process."""
    topic = str(record.topic())
    if topic in _TOO_FAR:
        return
    _TOO_FAR.add(topic)
    _LOG.warning(
        "%s[%s]@%s: the timestamp %s ms is beyond what microseconds in 64 bits reach. It is null in the"
        " column timestamp, as is every other such timestamp of this topic.",
        *(topic, record.partition(), record.offset(), record.timestamp()[1]),
    )


def _timestamp_types(batch: _Batch) -> pa.Array:
    # librdkafka counts from 0 (not available), the JVM from -1.
    return _numbers((batch.times[:, 0] - 1).astype(np.int32), pa.int32())


def _headers(batch: _Batch) -> pa.Array:
    lists = [take_headers(record) for record in batch.records]  # type: ignore[arg-type]
    value = pa.binary()
    if batch.decode is not None:
        lists, value = list(map(batch.decode, lists)), pa.string()
    kind = _headers_of(value)
    if not any(lists):
        return pa.nulls(len(lists), kind)
    pairs = list(chain.from_iterable(lists))
    sizes = np.fromiter(map(len, lists), np.int32, len(lists))
    ends = np.zeros(len(lists) + 1, np.int32)
    np.cumsum(sizes, out=ends[1:])
    # A record without headers has null, not an empty list, as in the JVM connector.
    validity = _validity(sizes == 0)
    names = _binary([name.encode() for name, _ in pairs], pa.string())
    values = _binary([one for _, one in pairs], value)
    entries = pa.StructArray.from_arrays([names, values], fields=list(kind.value_type))
    buffers = [validity, pa.py_buffer(ends)]
    return pa.Array.from_buffers(kind, len(lists), buffers, children=[entries])


def _binary(values: list[bytes | None], kind: pa.DataType = TYPES["value"]) -> pa.Array:
    """Return a column of bytes, or of UTF-8, by one copy of all."""
    try:
        joined = b"".join(values)  # type: ignore[arg-type]
    except TypeError:  # a null among them
        is_empty = values.count(None) == len(values)
        return pa.nulls(len(values), kind) if is_empty else pa.array(values, kind)
    if len(joined) > _COLUMN_BYTES_MAX:
        raise OverflowError(f"{len(joined)} bytes in one batch of {len(values)} records")
    ends = np.zeros(len(values) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, values), np.int32, len(values)), out=ends[1:])  # type: ignore[arg-type]
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(ends), pa.py_buffer(joined)])


def _numbers(
    values: np.ndarray[Any, Any], kind: pa.DataType, nulls: np.ndarray[Any, Any] | None = None
) -> pa.Array:
    """Return a column of numbers of the type's own width."""
    validity = None if nulls is None else _validity(nulls)
    return pa.Array.from_buffers(kind, len(values), [validity, pa.py_buffer(values)])


def _validity(nulls: np.ndarray[Any, Any]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(~nulls, bitorder="little"))


_COLUMNS: Mapping[str, Callable[[_Batch], pa.Array]] = {
    "key": lambda batch: _binary(list(map(Message.key, batch.records))),
    "value": lambda batch: _binary(list(map(Message.value, batch.records))),
    "topic": _topics,
    "partition": lambda batch: _numbers(
        np.full(len(batch.records), batch.piece.partition, np.int32), pa.int32()
    ),
    "offset": _offsets,
    "timestamp": _timestamps,
    "timestampType": _timestamp_types,
    "headers": _headers,
}
