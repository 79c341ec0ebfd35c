"""Rows of a frame as messages: what an Arrow batch may hold, checked whole before its first message is sent.

A row that cannot be sent is named by its number in its partition of the frame, counted from 1. In a task,
on its thread; opens nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ehkafka.errors import ConfigurationError, EndpointError, TopicNotFoundError
from ehkafka.outputs.encoding import ANY_PARTITION, FRAME_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Message = tuple[str, "bytes | None", "bytes | None", int, "list[tuple[str, bytes | None]]"]

# One report of a broken message stands for so many rows, and so many are sent again because of it.
PORTION_ROWS: Final = 1_000
PORTION_BYTES: Final = 1_048_576
_IN_ORDER: Final = ("value", "key", "topic", "partition", "headers")


@dataclass(frozen=True, slots=True)
class Rules:
    """What a task's rows must satisfy."""

    # Of all rows; None: the column topic has each row's.
    topic: str | None
    bytes_max: int
    # The partition of the frame.
    frame_partition: int
    # Returns how many partitions a topic has, 0 if it does not exist.
    partitions_of: Callable[[str], int]

    def name(self, row: int) -> str:
        """Return a row, counted from 0, in words."""
        return f"Row {row + 1} of the frame's partition {self.frame_partition}"


@dataclass(slots=True, eq=False)
class Portion:
    """Some rows in the frame's order, which are sent again together."""

    batch: pa.RecordBatch
    # The number of its first row in the task.
    first: int
    topic: str | None
    # Not handed over, or one of its messages is not written.
    is_unwritten: bool = field(default=True)

    def messages(self) -> Iterator[Message]:
        """Yield topic, value, key, partition and headers of each row; -1: the key decides."""
        values, keys, topics, numbers, headers = (self._column(name) for name in _IN_ORDER)
        partitions = (ANY_PARTITION if one is None else one for one in numbers)
        pairs = ([(one["key"], one["value"]) for one in given or ()] for given in headers)
        named = topics if self.topic is None else repeat(self.topic)
        return zip(named, values, keys, partitions, pairs, strict=False)

    def _column(self, name: str) -> list[Any]:
        column = _column(self.batch, name)
        if name in {"key", "value"} and column is not None:
            column = column.cast(pa.large_binary())  # text may be no UTF-8: Spark's casts keep any bytes
        return [None] * self.batch.num_rows if column is None else column.to_pylist()

    def row_of(self, topic: str, value: bytes | None, key: bytes | None) -> int | None:
        """Return the number of the first row with this message."""
        for row, message in enumerate(self.messages(), self.first):
            if message[:3] == (topic, value, key):
                return row
        return None


def portions(batch: pa.RecordBatch, first: int, rules: Rules) -> Iterator[Portion]:
    """Yield the rows of an Arrow batch, whose first one has this number, once all of them are checked.

    Raises `ConfigurationError`, `TopicNotFoundError` or `EndpointError`, each naming the first such row.
    """
    _check_topics(batch, first, rules)
    _check_partitions(batch, first, rules)
    _check_sizes(batch, first, rules)
    rows = max(1, min(PORTION_ROWS, PORTION_BYTES * batch.num_rows // max(1, batch.nbytes)))
    for start in range(0, batch.num_rows, rows):
        yield Portion(batch.slice(start, rows), first + start, rules.topic)


def _check_topics(batch: pa.RecordBatch, first: int, rules: Rules) -> None:
    if rules.topic is not None:
        return
    topics = _column(batch, "topic")
    if topics.null_count:
        row = pc.index(topics.is_null(), True).as_py()
        raise ConfigurationError(
            f"{rules.name(first + row)} has no topic: its column topic is null. Fill it, or give the option"
            " topic."
        )
    topics = topics.cast(pa.binary())
    for name in topics.unique().to_pylist():
        topic = name.decode("utf-8", "replace")
        if not rules.partitions_of(topic):
            row = pc.index(topics, name).as_py()
            raise TopicNotFoundError(
                f"{rules.name(first + row)} names topic {topic!r:.300}, which is not there. Create it, or"
                " correct the column topic."
            )


def _check_partitions(batch: pa.RecordBatch, first: int, rules: Rules) -> None:
    column = _column(batch, "partition")
    if column is None or column.null_count == len(column):
        return
    topics = [rules.topic] * len(column) if rules.topic is not None else _column(batch, "topic").to_pylist()
    pairs = list(zip(topics, column.to_pylist(), strict=True))
    counts = {topic: rules.partitions_of(topic) for topic, _ in set(pairs)}
    wrong = {(topic, one) for topic, one in set(pairs) if one is not None and not 0 <= one < counts[topic]}
    if wrong:
        row = next(row for row, pair in enumerate(pairs) if pair in wrong)
        topic, partition = pairs[row]
        raise ConfigurationError(
            f"{rules.name(first + row)} names partition {partition} of {topic!r}, whose partitions are 0 to"
            f" {counts[topic] - 1}. Correct the column partition, or leave null there: the key then decides."
        )


def _check_sizes(batch: pa.RecordBatch, first: int, rules: Rules) -> None:
    sizes = np.zeros(batch.num_rows, np.int64)
    for name in ("key", "value"):
        if (column := _column(batch, name)) is not None:
            sizes += _lengths(column)
    sizes += _header_sizes(batch, first, rules)
    most = rules.bytes_max - FRAME_BYTES
    if batch.num_rows and int(sizes.max()) > most:
        row = int(np.argmax(sizes > most))
        raise EndpointError(
            f"{rules.name(first + row)} has {sizes[row]} bytes with key and headers; the limit is {most}."
            " Write less in a row, or raise the option kafka.message.max.bytes and the topic's own"
            " max.message.bytes (on Event Hubs, what the tier allows)."
        )


def _header_sizes(batch: pa.RecordBatch, first: int, rules: Rules) -> Any:
    headers = _column(batch, "headers")
    if headers is None or headers.null_count == len(headers):
        return 0
    pairs, rows = pc.list_flatten(headers), pc.list_parent_indices(headers)
    names = pc.struct_field(pairs, [0]).cast(pa.large_binary())  # text may be no UTF-8, as in _column
    wrong = [name for name in names.unique().to_pylist() if not _can_name(name)]
    if wrong:
        row = rows[pc.index(pc.is_in(names, pa.array(wrong, names.type)), True).as_py()].as_py()
        raise ConfigurationError(
            f"{rules.name(first + row)} has a header without a name, or with a NUL character or bytes that"
            " are no UTF-8 in it. Correct the column headers."
        )
    lengths = _lengths(names) + _lengths(pc.struct_field(pairs, [1]))
    return np.bincount(rows.to_numpy(), lengths, minlength=batch.num_rows).astype(np.int64)


def _can_name(name: bytes | None) -> bool:
    # The client would end a name at a NUL character.
    return name is not None and b"\0" not in name and name.decode("utf-8", "ignore").encode() == name


def _lengths(column: pa.Array) -> Any:
    return pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)


def _column(batch: pa.RecordBatch, name: str) -> Any:
    """Return a column; None where the frame has none of that name."""
    at = batch.schema.get_field_index(name)
    return None if at < 0 else batch.column(at)
