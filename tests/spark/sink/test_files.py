from __future__ import annotations

import datetime as dt
import gzip
import io
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ehkafka.errors import ConfigurationError
from ehkafka.spark.sink import stage
from ehkafka.spark.sink.files import JsonLinesWriter, ParquetFile
from ehkafka.spark.sink.stage import StagedBlob, in_utc

BERLIN = pa.timestamp("us", "Europe/Berlin")
MOMENT = dt.datetime(2026, 1, 2, 3, 4, 5, 678900, tzinfo=dt.UTC)


class Blocks:
    """Keeps what is staged."""

    def __init__(self) -> None:
        self.staged: list[tuple[str, bytes]] = []

    def stage(self, block: str, content: bytes) -> None:
        """Take a block."""
        self.staged.append((block, content))

    def joined(self) -> bytes:
        """Return the blob as a commit of all blocks would make it."""
        return b"".join(content for _, content in self.staged)


def awkward() -> Any:
    """Return a batch with every kind of value, and with nulls."""
    return pa.record_batch(
        {
            "text": pa.array(["ä\n\"'\u2028", None]),
            "whole": pa.array([2**63 - 1, None], pa.int64()),
            "real": pa.array([float("nan"), None]),
            "exact": pa.array([Decimal("12345678901234567890.10"), None], pa.decimal128(38, 2)),
            "raw": pa.array([b"\x00\xff", None], pa.binary()),
            "day": pa.array([dt.date(2026, 1, 2), None]),
            "moment": pa.array([MOMENT, None], BERLIN),
            "wall": pa.array(
                [MOMENT.replace(tzinfo=None, second=0, microsecond=0), None], pa.timestamp("us")
            ),
            "list": pa.array([[1.5, float("inf")], None]),
            "map": pa.array([[("a", 1), ("b", None)], None], pa.map_(pa.string(), pa.int32())),
            "inner": pa.array(
                [{"moment": MOMENT, "low": float("-inf"), "maps": [[(1, [("x", 2)])], None]}, None],
                pa.struct(
                    [
                        ("moment", BERLIN),
                        ("low", pa.float64()),
                        ("maps", pa.list_(pa.map_(pa.int32(), pa.map_(pa.string(), pa.int8())))),
                    ]
                ),
            ),
        }
    )


def test_rows_become_one_json_object_a_line() -> None:
    """Every kind of value has a form that a JSON reader takes, the one that Spark's to_json has."""
    file = io.BytesIO()
    JsonLinesWriter(file, "none").write(in_utc(awkward()))  # type: ignore[arg-type]
    first, second = file.getvalue().splitlines()
    assert json.loads(first, parse_float=Decimal) == {
        "text": "ä\n\"'\u2028",
        "whole": 2**63 - 1,
        "real": "NaN",
        "exact": Decimal("12345678901234567890.10"),
        "raw": "AP8=",
        "day": "2026-01-02",
        "moment": "2026-01-02T03:04:05.678900Z",
        "wall": "2026-01-02T03:04:00",
        "list": [Decimal("1.5"), "Infinity"],
        "map": {"a": 1, "b": None},
        "inner": {
            "moment": "2026-01-02T03:04:05.678900Z",
            "low": "-Infinity",
            "maps": [{"1": {"x": 2}}, None],
        },
    }
    assert set(json.loads(second).values()) == {None}


def values_of(column: Any) -> list[Any]:
    """Return what the values of a column are as JSON, as a task writes them."""
    file = io.BytesIO()
    JsonLinesWriter(file, "none").write(in_utc(pa.record_batch({"c": column})))  # type: ignore[arg-type]
    return [json.loads(line, parse_float=Decimal)["c"] for line in file.getvalue().splitlines()]


RAW = pa.array([b"a\xff", b"\xed\xa0\x80", b"b", None], pa.binary()).view(pa.string())
RAW_REPORTED = ["a\ufffd", "\ufffd\ufffd\ufffd", "b", None]
DAY_US = 86_400_000_000
FAR_DAYS = [2_932_897, -719_163, -719_529, 0, None]  # since 1970
FAR_DAYS_REPORTED = ["+10000-01-01", "0000-12-31", "-0001-12-31", "1970-01-01", None]
HOSTILE: dict[str, tuple[Any, list[Any]]] = {
    "text": (RAW, RAW_REPORTED),
    "large text": (RAW.cast(pa.large_string()), RAW_REPORTED),
    "days": (pa.array(FAR_DAYS, pa.int32()).view(pa.date32()), FAR_DAYS_REPORTED),
    "moments": (
        pa.array([None if day is None else day * DAY_US + 1 for day in FAR_DAYS], pa.int64()).view(BERLIN),
        [day and f"{day}T00:00:00.000001Z" for day in FAR_DAYS_REPORTED],
    ),
    "wall clocks": (
        pa.array([-(2**63), 2**63 - 1, 1_000_000, None], pa.int64()).view(pa.timestamp("us")),
        ["-290308-12-21T19:59:05.224192", "+294247-01-10T04:00:54.775807", "1970-01-01T00:00:01", None],
    ),
    "reals": (
        pa.array([float("nan"), float("-inf"), 1.5, None]),
        ["NaN", "-Infinity", Decimal("1.5"), None],
    ),
    "short reals": (
        pa.array([float("nan"), float("inf"), 0.25, None], pa.float32()),
        ["NaN", "Infinity", Decimal("0.25"), None],
    ),
    "decimals": (
        pa.array([Decimal(10) ** 28, Decimal("-1E-9"), None], pa.decimal128(38, 9)),
        [Decimal(10) ** 28, Decimal("-1E-9"), None],
    ),
    "longest intervals": (
        pa.array([2**63 - 1, -(2**63), None], pa.int64()).view(pa.duration("us")),
        ["106751991 days, 4:00:54.775807", "-106751992 days, 19:59:05.224192", None],
    ),
}


def wrapped(column: Any, reported: list[Any], inside: str) -> tuple[Any, list[Any]]:
    """Return a column whose values have those inside, and how they are shown."""
    offsets = pa.array(range(len(column) + 1), pa.int32())
    if inside == "struct":
        return pa.StructArray.from_arrays([column], ["v"]), [{"v": each} for each in reported]
    if inside == "list":
        return pa.ListArray.from_arrays(offsets, column), [[each] for each in reported]
    keys = pa.array([f"k{number}" for number in range(len(column))])
    as_map = pa.MapArray.from_arrays(offsets, keys, column)
    return as_map, [{f"k{number}": each} for number, each in enumerate(reported)]


@pytest.mark.parametrize(
    "insides", [(), ("struct",), ("list",), ("map",), ("struct", "map", "list", "struct")]
)
@pytest.mark.parametrize("what", HOSTILE)
def test_what_a_hostile_producer_wrote_does_not_end_the_query(what: str, insides: tuple[str, ...]) -> None:
    """Bytes cast to text need not be UTF-8, and times may be any number: reported as Spark's to_json does.

    At any depth, with nulls, and in a slice of a larger array.
    """
    column, reported = HOSTILE[what]
    for inside in insides:
        column, reported = wrapped(column, reported, inside)
    column, reported = pa.concat_arrays([column, pa.nulls(1, column.type)]), [*reported, None]
    assert values_of(column) == reported
    assert values_of(column.slice(1, len(reported) - 2)) == reported[1:-1]
    assert values_of(column.slice(0, 0)) == []


def test_no_entry_of_a_map_is_lost() -> None:
    """Names that look alike as text, or that a file had twice, are numbered; far times are names."""
    keys = pa.array([b"a\xff", b"a\xfe", b"a\xef\xbf\xbd", b"b", b"b", b"b"], pa.binary()).view(pa.string())
    texts = pa.MapArray.from_arrays([0, 4, 6], keys, pa.array(range(6)))
    assert values_of(texts) == [{"a\ufffd": 0, "a\ufffd#2": 1, "a\ufffd#3": 2, "b": 3}, {"b": 4, "b#2": 5}]
    moments = pa.array([2**62, -(2**62), 0], pa.int64()).view(pa.timestamp("us", "UTC"))
    days = pa.array([2_932_897, 0, -719_163], pa.int32()).view(pa.date32())
    reals = pa.array([float("nan"), float("inf"), 0.5])
    reported = [
        ["+148108-07-06T14:00:27.387904Z", "-144169-06-28T09:59:32.612096Z", "1970-01-01T00:00:00Z"],
        ["+10000-01-01", "1970-01-01", "0000-12-31"],
        ["NaN", "Infinity", "0.5"],
    ]
    for keys, names in zip((moments, days, reals), reported, strict=True):
        assert [*values_of(pa.MapArray.from_arrays([0, 3], keys, pa.array([1, 2, 3])))[0]] == names


def test_days_and_times_have_one_form_whatever_stands_beside_them() -> None:
    """A far one among them changes nothing in how the others are written."""
    near = [
        -62_135_596_800_000_000,
        253_402_300_799_999_999,
        -1,
        0,
        1,
        951_782_400_000_000,
        1_767_225_599_000_000,
    ]
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        alone = values_of(pa.array(near, pa.int64()).view(kind))
        nearest = values_of(pa.array([*near, 2**62], pa.int64()).view(kind))
        assert nearest[:-1] == alone
    days = [-719_162, 2_932_896, -1, 0, 11_016, 19_782]
    alone = values_of(pa.array(days, pa.int32()).view(pa.date32()))
    assert values_of(pa.array([*days, 2**31 - 1], pa.int32()).view(pa.date32())) == [*alone, "+5881580-07-11"]


def test_equal_rows_make_equal_compressed_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replayed batch's blob is the same: no time of writing is in it."""
    made = []
    for now_s in (1e9, 2e9):
        monkeypatch.setattr("gzip.time.time", lambda now_s=now_s: now_s)
        file = io.BytesIO()
        lines = JsonLinesWriter(file, "gzip")  # type: ignore[arg-type]
        lines.write(in_utc(awkward()))
        lines.close()
        made.append(file.getvalue())
    assert made[0] == made[1]
    assert len(gzip.decompress(made[0]).splitlines()) == 2


def test_parquet_gives_the_same_rows_back() -> None:
    """All types survive; the rows of small batches share a row group."""
    blocks = Blocks()
    blob = StagedBlob(blocks.stage, 1024)
    batch = in_utc(awkward().drop_columns(["real", "list"]))
    file = ParquetFile(blob, batch.schema, "zstd")
    for _ in range(10):
        file.write(batch)
    file.close()
    assert blob.finish() == tuple(name for name, _ in blocks.staged)
    found = pq.ParquetFile(io.BytesIO(blocks.joined()))
    assert found.metadata.num_row_groups == 1
    assert found.read().to_pylist() == batch.to_pylist() * 10
    assert blob.tell() == len(blocks.joined())


def test_a_large_parquet_file_is_written_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more than one row group waits in memory."""
    monkeypatch.setattr("ehkafka.spark.sink.files.GROUP_ROWS", 5)
    blocks = Blocks()
    blob = StagedBlob(blocks.stage, 1 << 20)
    file = ParquetFile(blob, pa.schema([("n", pa.int64())]), "none")
    for start in range(0, 12, 3):
        file.write(pa.record_batch({"n": pa.array(range(start, start + 3), pa.int64())}))
    file.close()
    blob.finish()
    found = pq.ParquetFile(io.BytesIO(blocks.joined()))
    assert [found.metadata.row_group(n).num_rows for n in range(found.metadata.num_row_groups)] == [6, 6]


def test_bytes_are_cut_into_blocks_of_one_size() -> None:
    """Every block is full but the last one; their ids are of one length, and of this attempt alone."""
    blocks, other = Blocks(), Blocks()
    for target in (blocks, other):
        blob = StagedBlob(target.stage, 10)
        for piece in (b"a" * 25, b"", b"b" * 4, b"c" * 11):
            blob.write(piece)
        blob.finish()
    assert [len(content) for _, content in blocks.staged] == [10, 10, 10, 10]
    assert blocks.joined() == b"a" * 25 + b"b" * 4 + b"c" * 11
    names = [name for name, _ in blocks.staged + other.staged]
    assert len(set(names)) == 8
    assert {len(name) for name in names} == {38}


def test_more_blocks_than_a_blob_can_have_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says what to change."""
    monkeypatch.setattr(stage, "BLOCKS_MAX", 2)
    blob = StagedBlob(lambda _name, _content: None, 1)
    with pytest.raises(ConfigurationError, match="raise blockBytes"):
        blob.write(b"abc")
