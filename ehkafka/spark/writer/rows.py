"""Rows of a frame as messages, and which rows cannot be any. In a task, on its thread; opens nothing.

An Arrow batch is checked whole before its first message is sent.
"""

from __future__ import annotations

from itertools import islice, repeat
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ehkafka.errors import ConfigurationError, EndpointError, TopicNotFoundError
from ehkafka.outputs.encoding import ANY_PARTITION, FRAME_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ehkafka.errors import EhkafkaError

    # The number of a row in its batch, from 0, and its error: the class, and the text behind the row's name.
    WrongRow = tuple[int, type[EhkafkaError], str]

# One report of a broken message stands for so many rows, and so many are sent again because of it.
PORTION_ROWS: Final = 1_000
PORTION_BYTES: Final = 327_680
# Text as bytes, which may be no UTF-8: Spark's cast to string keeps any.
_BYTES: Final = pa.large_binary()
_COLUMNS: Final = {
    "topic": _BYTES,
    "value": _BYTES,
    "key": _BYTES,
    "partition": pa.int32(),
    "headers": pa.list_(pa.struct([("key", _BYTES), ("value", _BYTES)])),
}


def of_messages(frame: pa.RecordBatch) -> pa.RecordBatch:
    """Return the columns that become parts of messages, all null where the frame has none of that name."""
    given = dict(zip(frame.schema.names, frame.columns, strict=True))
    columns = [
        given[name].cast(kind) if name in given else pa.nulls(frame.num_rows, kind)
        for name, kind in _COLUMNS.items()
    ]
    return pa.record_batch(columns, names=[*_COLUMNS])


def portions(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows in their order, as many at a time as are sent again together, and where each begins."""
    rows = max(1, min(PORTION_ROWS, PORTION_BYTES * batch.num_rows // max(1, batch.nbytes)))
    for start in range(0, batch.num_rows, rows):
        yield start, batch.slice(start, rows)


def messages(batch: pa.RecordBatch, topic: str | None) -> Iterator[tuple[Any, ...]]:
    """Yield topic, value, key, partition and headers of each row; -1: the key decides.

    `topic` is that of all rows; None: the column has it.
    """
    names, values, keys, partitions, headers = batch.columns
    topics = _texts(names) if topic is None else repeat(topic)
    numbers = _listed(partitions.fill_null(ANY_PARTITION))
    return zip(topics, _listed(values), _listed(keys), numbers, _pairs(headers), strict=False)


def topics(batch: pa.RecordBatch, topic: str | None) -> list[str]:
    """Return the topics of the rows; `topic` as for `messages`."""
    return _texts(batch.column("topic").unique()) if topic is None else [topic]


def wrong_rows(
    batch: pa.RecordBatch, topic: str | None, bytes_max: int, partitions_of: Callable[[str, int], int]
) -> Iterator[WrongRow]:
    """Yield rows that cannot be sent: by their places, then by their headers, then by their sizes.

    `partitions_of` returns how many partitions a topic has, 0 if it does not exist; it looks for this one.
    """
    names, partitions = batch.column("topic"), batch.column("partition")
    # Without both of the columns there is one place, which the driver has checked.
    if topic is None or partitions.null_count < batch.num_rows:
        topics = _texts(names) if topic is None else repeat(topic)
        yield from _wrong_places(list(zip(topics, partitions.to_pylist(), strict=False)), partitions_of)
    yield from _wrong_contents(batch, bytes_max - FRAME_BYTES)


def _wrong_places(
    places: list[tuple[str | None, int | None]], partitions_of: Callable[[str, int], int]
) -> Iterator[WrongRow]:
    for topic, partition in dict.fromkeys(places):
        count = 0 if topic is None else partitions_of(topic, max(0, partition or 0))
        kind: type[EhkafkaError] = ConfigurationError
        if topic is None:
            text = "has no topic: its column topic is null. Fill it, or give the option topic."
        elif not count:
            kind = TopicNotFoundError
            text = f"names topic {topic!r:.300}, which does not exist. Create it, or correct its name."
        else:
            text = (
                f"names partition {partition} of {topic!r}, whose partitions are 0 to {count - 1}. Correct"
                " the column partition, or leave null there: the key then decides."
            )
        if not 0 <= (partition or 0) < count:
            yield places.index((topic, partition)), kind, text


def _wrong_contents(batch: pa.RecordBatch, bytes_max: int) -> Iterator[WrongRow]:
    headers = batch.column("headers")
    rows, (names, values) = pc.list_parent_indices(headers).to_numpy(), pc.list_flatten(headers).flatten()
    for name in names.unique().to_pylist():
        # The client would end a name at a NUL character.
        if name is None or b"\0" in name or name.decode("utf-8", "ignore").encode() != name:
            text = (
                "has a header without a name, or with a NUL character or bytes that are no UTF-8 in it."
                " Correct the column headers."
            )
            yield rows[names.to_pylist().index(name)], ConfigurationError, text
    sizes = np.bincount(rows, _lengths(names) + _lengths(values), batch.num_rows)
    sizes += _lengths(batch.column("value")) + _lengths(batch.column("key"))
    for row in np.flatnonzero(sizes > bytes_max):
        text = (
            f"has {sizes[row]:.0f} bytes with key and headers; the limit is {bytes_max}. Write less in a row,"
            " or raise the option kafka.message.max.bytes and the topic's own max.message.bytes (on Event"
            " Hubs, what the tier allows)."
        )
        yield int(row), EndpointError, text


def _pairs(headers: pa.ListArray) -> Iterable[list[tuple[str, bytes | None]] | None]:
    if headers.null_count == len(headers):
        return repeat(None)
    names, values = pc.list_flatten(headers).flatten()
    pairs = zip(_texts(names), _listed(values), strict=True)
    counts = _listed(pc.list_value_length(headers).fill_null(0))
    return [list(islice(pairs, count)) or None for count in counts]


def _texts(column: pa.Array) -> list[Any]:
    return [None if one is None else one.decode("utf-8", "replace") for one in _listed(column)]


def _lengths(column: pa.Array) -> Any:
    return pc.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False)


def _listed(column: pa.Array) -> Any:
    # Half of what to_pylist takes.
    return column.to_numpy(zero_copy_only=False).tolist()
