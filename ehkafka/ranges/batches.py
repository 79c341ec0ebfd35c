"""Records as Arrow columns.

The hot path of a reader: whole columns are built from what the messages give, with as little work for each
record as can be, and out of buffers: for the first Python value that pyarrow converts it loads pandas, which
takes a process a third of a second. Types and field names are those of Spark's own Kafka connector, because
Spark compares them. One thread.
"""

from __future__ import annotations

import logging
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

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
    kept: list[list[_Part]] = []
    rows = size_bytes = 0
    try:
        for piece, records in messages:
            if not records:
                continue
            batch = _Batch(piece, records, decode)
            parts = [_COLUMNS[name](batch) for name in columns]
            rows += len(records)
            size_bytes += sum(part.size_bytes for part in parts)
            if kept and (rows > BATCH_RECORDS or size_bytes > BATCH_BYTES):
                yield _joined(schema, kept)
                kept, rows = [], len(records)
                size_bytes = sum(part.size_bytes for part in parts)
            kept.append(parts)
            del batch, records  # else two lists would be in memory at a time
    except EhkafkaError:
        # Retention may take these before they are read again.
        if kept:
            yield _joined(schema, kept)
        raise
    if kept:
        yield _joined(schema, kept)


def arrow_schema(columns: Sequence[str], *, texts: bool = False) -> pa.Schema:
    """Return the Arrow schema of these columns; with `texts` the values of headers are text."""
    types = {**TYPES, "headers": _headers_of(pa.string())} if texts else TYPES
    return pa.schema([pa.field(name, types[name]) for name in columns])


class _Part(NamedTuple):
    """A column of one list: numbers as wide as Arrow's, or for each row how much of `inner` it has.

    `inner` are the rows' bytes, or the columns of their headers. `nulls` tells which rows have none.
    """

    values: np.ndarray[Any, Any]
    nulls: np.ndarray[Any, Any] | None = None
    inner: bytes | tuple[_Part, _Part] | None = None

    @property
    def size_bytes(self) -> int:
        inner = self.inner or ()
        more = len(inner) if isinstance(inner, bytes) else sum(part.size_bytes for part in inner)
        return int(self.values.nbytes) + more


def _joined(schema: pa.Schema, kept: list[list[_Part]]) -> pa.RecordBatch:
    arrays = [_array(kind, parts) for kind, parts in zip(schema.types, zip(*kept, strict=True), strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(kind: pa.DataType, parts: Sequence[_Part]) -> pa.Array:
    """Return a column of the parts, by one copy of all."""
    values = np.concatenate([part.values for part in parts])
    validity = None
    if any(part.nulls is not None for part in parts):
        nulls = [np.zeros(len(part.values), bool) if part.nulls is None else part.nulls for part in parts]
        validity = pa.py_buffer(np.packbits(~np.concatenate(nulls), bitorder="little"))
    inner = [part.inner for part in parts]
    if inner[0] is None:
        return pa.Array.from_buffers(kind, len(values), [validity, pa.py_buffer(values)])
    ends = np.zeros(len(values) + 1, np.int32)
    np.cumsum(values, out=ends[1:])
    buffers = [validity, pa.py_buffer(ends)]
    if isinstance(inner[0], bytes):
        joined = b"".join(inner)  # type: ignore[arg-type]
        if len(joined) > _COLUMN_BYTES_MAX:
            raise OverflowError(f"one column of {len(values)} records has {len(joined)} bytes: too many")
        return pa.Array.from_buffers(kind, len(values), [*buffers, pa.py_buffer(joined)])
    pair = list(kind.value_type)
    fields = [_array(one.type, of) for one, of in zip(pair, zip(*inner, strict=True), strict=True)]
    entries = pa.StructArray.from_arrays(fields, fields=pair)
    return pa.Array.from_buffers(kind, len(values), buffers, children=[entries])


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


def _topics(batch: _Batch) -> _Part:
    name, count = batch.piece.topic.encode(), len(batch.records)
    return _Part(np.full(count, len(name), np.int32), inner=name * count)


def _offsets(batch: _Batch) -> _Part:
    records, count = batch.records, len(batch.records)
    first, last = records[0].offset() or 0, records[-1].offset() or 0
    # In offset order: without a gap between the two ends there is none at all.
    if last - first == count - 1:
        return _Part(np.arange(first, last + 1, dtype=np.int64))
    return _Part(np.fromiter(map(Message.offset, records), np.int64, count))


def _timestamps(batch: _Batch) -> _Part:
    milliseconds = batch.times[:, 1]
    is_too_far = (milliseconds > _MILLISECONDS_MAX) | (milliseconds < -_MILLISECONDS_MAX)
    # What microseconds cannot say is null: a record of a hostile producer must not end the reading.
    nulls = is_too_far if is_too_far.any() else None
    if nulls is not None:
        _warn_of(batch.records[int(is_too_far.argmax())])
        milliseconds = np.where(is_too_far, 0, milliseconds)
    return _Part(milliseconds * 1000, nulls)


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


def _timestamp_types(batch: _Batch) -> _Part:
    # librdkafka counts from 0 (not available), the JVM from -1.
    return _Part((batch.times[:, 0] - 1).astype(np.int32))


def _headers(batch: _Batch) -> _Part:
    lists = [take_headers(record) for record in batch.records]  # type: ignore[arg-type]
    if batch.decode is not None:
        lists = list(map(batch.decode, lists))
    sizes = np.fromiter(map(len, lists), np.int32, len(lists))
    pairs = list(chain.from_iterable(lists))
    names = _bytes([name.encode() for name, _ in pairs])
    # A record without headers has null, not an empty list, as in the JVM connector.
    return _Part(sizes, sizes == 0, (names, _bytes([value for _, value in pairs])))


def _bytes(values: list[bytes | None]) -> _Part:
    """Return a column of bytes, or of UTF-8."""
    count = len(values)
    try:
        joined, nulls = b"".join(values), None  # type: ignore[arg-type]
    except TypeError:  # a null among them
        if values.count(None) == count:
            return _Part(np.zeros(count, np.int32), np.ones(count, bool), b"")
        nulls = np.fromiter((value is None for value in values), bool, count)
        values = [value or b"" for value in values]
        joined = b"".join(values)  # type: ignore[arg-type]
    return _Part(np.fromiter(map(len, values), np.int32, count), nulls, joined)  # type: ignore[arg-type]


_COLUMNS: Mapping[str, Callable[[_Batch], _Part]] = {
    "key": lambda batch: _bytes(list(map(Message.key, batch.records))),
    "value": lambda batch: _bytes(list(map(Message.value, batch.records))),
    "topic": _topics,
    "partition": lambda batch: _Part(np.full(len(batch.records), batch.piece.partition, np.int32)),
    "offset": _offsets,
    "timestamp": _timestamps,
    "timestampType": _timestamp_types,
    "headers": _headers,
}
