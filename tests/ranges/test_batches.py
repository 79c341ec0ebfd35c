"""Records as Arrow columns."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import pytest
from confluent_kafka import Message

pa = pytest.importorskip("pyarrow")

from ehkafka.ranges import batches as module  # noqa: E402 - after the skip
from ehkafka.ranges.batches import record_batches  # noqa: E402
from ehkafka.ranges.options import NAMES  # noqa: E402
from ehkafka.ranges.places import Piece  # noqa: E402

PIECE = Piece("readings", 3, 0, 1000)


def _message(offset: int, **given: Any) -> Message:
    return Message(topic="readings", partition=3, offset=offset, **{"timestamp": (1, 1000), **given})


def _rows(records: list[Message], *columns: str) -> list[dict[str, Any]]:
    (batch,) = record_batches(columns or NAMES, [(PIECE, records)])
    batch.validate(full=True)
    rows: list[dict[str, Any]] = batch.to_pylist()
    return rows


def test_nulls_and_empty_bytes_stay_what_they_are() -> None:
    """A tombstone is null, an empty value is empty; the same for keys."""
    given = [(None, None), (b"", b""), (b"k", None), (None, b"v"), (b"k", b"v")]
    rows = _rows([_message(number, key=key, value=value) for number, (key, value) in enumerate(given)])
    assert [(row["key"], row["value"]) for row in rows] == given
    rows = _rows([_message(number, key=b"k", value=b"v" * number) for number in range(5)], "value", "key")
    assert [row["value"] for row in rows] == [b"v" * number for number in range(5)]
    assert list(rows[0]) == ["value", "key"]


def test_nulls_of_one_list_stay_in_its_rows() -> None:
    """A batch of several lists, of which some have no null, some have some, and some have nothing else."""
    keys = [[b"a", b"b"], [None, b"", b"c"], [None, None], [b"d"]]
    numbers = iter(range(8))
    lists = [
        (PIECE, [_message(next(numbers), key=key, headers=key and [("k", key)]) for key in each])
        for each in keys
    ]
    (batch,) = record_batches(("key", "headers"), lists)
    batch.validate(full=True)
    flat = [key for each in keys for key in each]
    assert batch.column(0).to_pylist() == flat
    assert batch.column(1).to_pylist() == [[{"key": "k", "value": key}] if key else None for key in flat]


def test_lists_without_records_make_no_batch() -> None:
    """Reading gives some while it waits for the broker; tables have no use for them."""
    lists = [(PIECE, []), (PIECE, [_message(0)]), (PIECE, [])]
    (batch,) = record_batches(NAMES, lists)
    assert batch.num_rows == 1


@pytest.mark.parametrize(
    ("value_bytes", "lists", "expected"),
    [
        (1, [4, 4, 4], [8, 4]),
        (1, [3, 0, 3, 3, 1], [10]),
        (1, [10, 1], [10, 1]),
        (1, [1, 15, 1], [1, 15, 1]),
        (100, [2, 2, 1], [4, 1]),
        (1000, [1, 1], [1, 1]),
    ],
)
def test_lists_are_joined_up_to_a_number_of_rows_and_bytes(
    monkeypatch: pytest.MonkeyPatch, value_bytes: int, lists: list[int], expected: list[int]
) -> None:
    """In the order in which they came, whatever their pieces are; one list is never cut."""
    monkeypatch.setattr(module, "BATCH_RECORDS", 10)
    monkeypatch.setattr(module, "BATCH_BYTES", 500)
    pieces = cycle([PIECE, Piece("readings", 4, 0, 1000)])
    numbers = iter(range(sum(lists)))
    given = [
        (piece, [_message(next(numbers), value=b"v" * value_bytes) for _ in range(count)])
        for piece, count in zip(pieces, lists, strict=False)
    ]
    batches = list(record_batches(("value", "partition", "offset"), given))
    assert [batch.num_rows for batch in batches] == expected
    for batch in batches:
        batch.validate(full=True)
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert [row["offset"] for row in rows] == list(range(sum(lists)))
    assert [row["partition"] for row in rows] == [piece.partition for piece, of in given for _ in of]
    assert {len(row["value"]) for row in rows} == {value_bytes}


def test_offsets_with_holes_are_kept() -> None:
    """A compacted log has holes; a log without them is counted through."""
    for offsets in ([5, 6, 7], [5, 7, 8], [5, 6, 9]):
        assert [row["offset"] for row in _rows([_message(one) for one in offsets], "offset")] == offsets


def test_timestamps_are_sparks() -> None:
    """Librdkafka's types 0, 1, 2 are -1, 0, 1 in Spark; milliseconds become microseconds."""
    rows = _rows([_message(number, timestamp=(kind, kind * 1001)) for number, kind in enumerate([1, 2])])
    assert [row["timestampType"] for row in rows] == [0, 1]
    (batch,) = record_batches(["timestamp"], [(PIECE, [_message(0, timestamp=(1, 1_001))])])
    assert batch.column(0).cast(pa.int64()).to_pylist() == [1_001_000]


def test_a_timestamp_that_microseconds_cannot_say_is_null(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A hostile producer's number must not end the query; each worker logs the first of a topic."""
    monkeypatch.setattr(module, "_TOO_FAR", set())
    far = [5, 2**63 - 1, -(2**63), (2**63 - 1) // 1000]
    records = [_message(number, timestamp=(1, at)) for number, at in enumerate(far)]
    for _ in range(2):
        (batch,) = record_batches(["timestamp"], [(PIECE, records)])
        assert batch.column(0).cast(pa.int64()).to_pylist() == [5000, None, None, (2**63 - 1) // 1000 * 1000]
    (logged,) = caplog.messages
    assert logged.startswith("readings[3]@1: the timestamp 9223372036854775807 ms is beyond")


def test_headers_keep_their_order_and_repeats() -> None:
    """Repeated names, null and empty values; no headers is null, as in the JVM connector."""
    repeated = [("a", b"1"), ("a", b"2"), ("b", None), ("", b"")]
    rows = _rows([_message(0, headers=repeated), _message(1), _message(2, headers=[("c", b"3")])], "headers")
    assert [row["headers"] for row in rows] == [
        [{"key": name, "value": value} for name, value in repeated],
        None,
        [{"key": "c", "value": b"3"}],
    ]
    assert _rows([_message(0), _message(1)], "headers") == [{"headers": None}, {"headers": None}]
