"""The home-security pipeline's pure parts: what is sent, what counts, how rows add up, what is deleted."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from home_pipeline import layout
from home_pipeline.ledger import MINUTE_US, Ledger, read_ledger
from home_pipeline.readings import Reading, Town, encode, home_name
from home_pipeline.rules import CLOCK_TOLERANCE_US, Windows, parse
from home_pipeline.sweep import old
from home_pipeline.table import Table

if TYPE_CHECKING:
    from pathlib import Path

BEGIN_US = 1_790_000_000_000_000
GOOD = Reading("home-000007", "temperature", "°C", BEGIN_US, 20.25, alarm=False)


def a_town(**other: Any) -> Town:
    """Return a small town."""
    return Town(homes=300, rate=500, begin_us=BEGIN_US, **other)


def test_the_same_seed_draws_the_same_town() -> None:
    """What a test compares can be sent again; another seed is another town."""
    assert list(islice(a_town(seed=4).sent(), 500)) == list(islice(a_town(seed=4).sent(), 500))
    assert list(islice(a_town(seed=4).sent(), 500)) != list(islice(a_town(seed=5).sent(), 500))


def test_a_reading_counts_exactly_when_it_was_not_spoilt() -> None:
    """Every good reading is parsed to what was meant, every spoilt one to nothing; there are both kinds."""
    sent = list(islice(a_town().sent(), 20_000))
    for one in sent:
        meant = one.reading if one.left_out is None else None
        assert parse(one.value, one.timestamp_ms) == meant
    assert {one.left_out for one in sent} == {None, "broken", "wrong clock"}


def test_a_new_sensor_is_sold_later() -> None:
    """Nothing of the new kind before its time, some of it afterwards."""
    sent = list(islice(a_town(new_sensor_after_s=10).sent(), 10_000))
    water = [one.timestamp_ms for one in sent if one.reading.kind == "water"]
    assert water
    assert min(water) >= BEGIN_US // 1000 + 10_000


@pytest.mark.parametrize(
    "spoilt",
    [
        {"home": "home-000007\n"},
        {"home": "home-" + "\u0660" * 6},
        {"home": "../home-000007"},
        {"home": 7},
        {"kind": "Temperature"},
        {"kind": "t" * 25},
        {"unit": "<b>"},
        {"unit": ["°C"]},
        {"at": float(BEGIN_US)},
        {"at": True},
        {"at": BEGIN_US + CLOCK_TOLERANCE_US + 1},
        {"value": "20"},
        {"value": True},
        {"value": 1e300},
        {"value": None},
    ],
)
def test_what_is_no_reading_is_left_out(spoilt: dict[str, Any]) -> None:
    """Names that are none, values of other types, clocks too far off; nothing raises."""
    assert parse(encode(GOOD), BEGIN_US // 1000) == GOOD
    body = orjson.loads(encode(GOOD)) | spoilt
    assert parse(orjson.dumps(body), BEGIN_US // 1000) is None


@pytest.mark.parametrize("value", [None, b"", b"\xff", b"[]", b"17", b"null", b'"home"', b"[" * 5000])
def test_what_is_no_object_is_left_out(value: bytes | None) -> None:
    """Tombstones, bytes, other JSON, deep nesting."""
    assert parse(value, BEGIN_US // 1000) is None


def test_rows_add_up_in_any_order_and_any_portions() -> None:
    """Readings counted at once, or in portions that are added in another order, make the same rows."""
    draw = random.Random(1)
    readings = [one.reading for one in islice(a_town().sent(), 3_000) if one.left_out is None]
    at_once = layout.rows_of(readings, Windows())
    portions = [readings[begin : begin + 117] for begin in range(0, len(readings), 117)]
    draw.shuffle(portions)
    added: dict[tuple[Any, ...], layout.Row] = {}
    for row in (row for portion in portions for row in layout.rows_of(portion, Windows())):
        added[row[:5]] = layout.added(added[row[:5]], row) if row[:5] in added else row
    assert sorted(added.values()) == sorted(at_once)
    assert sum(row.readings for row in at_once) == len(readings)


def test_rows_come_back_as_they_were_written() -> None:
    """One reader for what is written."""
    rows = layout.rows_of([GOOD, GOOD._replace(home=home_name(8), alarm=True)], Windows())
    assert layout.decode(layout.encode(rows), "blob") == rows


@pytest.mark.parametrize(
    "spoilt",
    [
        {"home": "home-7"},
        {"home": "<script>"},
        {"kind": "a b"},
        {"unit": '"'},
        {"readings": -1},
        {"readings": "1"},
        {"alarms": True},
        {"total": None},
        {"low": "NaN"},
        {"unit": "x" * 2000},
    ],
)
def test_a_line_that_is_no_row_is_refused_with_its_place(spoilt: dict[str, Any]) -> None:
    """Blobs are somebody else's, too: nothing of them is believed unseen."""
    row = layout.rows_of([GOOD], Windows())[0]
    line = orjson.dumps(row._asdict() | spoilt)
    with pytest.raises(layout.LayoutError, match="blob x, line 2"):
        layout.decode(layout.encode([row]) + line, "x")


@pytest.mark.parametrize(
    "manifest",
    [
        b"",
        b"[]",
        b'{"blobs":1}',
        b'{"blobs":[{"name":"s/batch=000000000002/part-00000.jsonl"}]}',
        b"[" * 5000,
    ],
)
def test_a_manifest_names_blobs_of_its_own_batch_alone(manifest: bytes) -> None:
    """What is no manifest, or names something elsewhere, is refused with its name."""
    name = "s/batch=000000000001/_manifest.json"
    good = b'{"blobs":[{"name":"s/batch=000000000001/part-00000.jsonl"}]}'
    assert layout.named_in(good, name) == ["s/batch=000000000001/part-00000.jsonl"]
    with pytest.raises(layout.LayoutError, match=name):
        layout.named_in(manifest, name)


@pytest.mark.parametrize("last", ["", "-1", "x", "\u0661", "1" * 20])
def test_what_comes_next_is_guessed_from_good_metadata_alone(last: str) -> None:
    """A partition's next blob begins behind the last offset; where that is nonsense nobody guesses."""
    name = "local/readings/00003/00000000000000000001.jsonl"
    assert layout.next_after(name, {"last_offset": "41"}) == (
        "local/readings/00003/",
        "local/readings/00003/00000000000000000042.jsonl",
    )
    assert layout.next_after(name, {"last_offset": last}) is None


def test_a_batch_counts_when_its_manifest_is_there() -> None:
    """Spark's blobs wait for the manifest of their batch; the local engine's count at once; others never."""
    half = ["s/batch=000000000001/part-00000.jsonl", "s/batch=000000000001/part-00001.jsonl"]
    whole = ["s/batch=000000000000/_manifest.json", "s/batch=000000000000/part-00000.jsonl"]
    local = ["local/readings/00003/00000000000000000001.jsonl"]
    assert layout.complete([*half, *whole, *local, "s/_ehkafka.json"]) == [whole[1], *local]
    assert layout.complete([*half, "s/batch=000000000001/_manifest.json"]) == half


def test_the_ledger_comes_back_from_its_file(tmp_path: Path) -> None:
    """Counts and kept readings survive; what is older may be dropped, the counts stay."""
    ledger = Ledger(detailed_homes=50)
    for one in islice(a_town().sent(), 5_000):
        ledger.note(one)
    ledger.write(tmp_path / "ledger.json")
    again = read_ledger(tmp_path / "ledger.json")
    assert again == ledger
    assert set(again.homes) == {home_name(number) for number in range(50)}
    assert sum(again.per_minute.values()) + sum(again.left_out.values()) == 5_000
    again.forget_before(BEGIN_US + 5_000_000)
    assert 0 < sum(map(len, again.homes.values())) < sum(map(len, ledger.homes.values()))


def test_the_table_forgets_what_is_old_and_nothing_else() -> None:
    """Bounded by time: minutes older than `keep_s` go, later ones keep their numbers."""
    table = Table(keep_s=120)
    try:
        for minute in range(6):
            reading = GOOD._replace(at_us=MINUTE_US * (30_000_000 + minute))
            table.add(layout.rows_of([reading, reading._replace(value=3.5)], Windows()))
        table.forget()
        minutes = table.ask("select minute_s / 60 - 30000000, readings, low, high from minutes")
        windows = table.ask("select count(*) from windows")
    finally:
        table.close()
    assert minutes == [(minute, 2, 3.5, 20.25) for minute in (2, 3, 4, 5)]
    assert windows == [(4,)]


def test_homes_of_a_minute_are_counted_again_when_more_of_it_comes() -> None:
    """A page that reads many blobs after its start asks in between: the half that it saw is not kept."""
    minute_s = BEGIN_US // 1_000_000 // 60 * 60
    table = Table(keep_s=600)
    try:
        for number, home in enumerate(("home-000001", "home-000002"), 1):
            table.add(layout.rows_of([GOOD._replace(home=home, at_us=BEGIN_US)], Windows()))
            assert [table.homes_in(minute_s, is_over=True) for _ in range(2)] == [number, number]
    finally:
        table.close()


def test_a_kind_is_there_since_its_first_window_in_whatever_order_rows_come() -> None:
    """A blob of many windows, the latest first, makes no kind look new; nor does an older blob later."""
    readings = [GOOD._replace(at_us=BEGIN_US + minute * MINUTE_US) for minute in (5, 3, 4, 1, 2)]
    rows = [layout.rows_of([reading], Windows())[0] for reading in readings]
    table = Table(keep_s=600)
    try:
        table.add(rows[:3])
        table.add(rows[3:])
        assert table.ask("select id, kind, since_s from kinds") == [(1, "temperature", rows[3].begin_s)]
    finally:
        table.close()


def test_the_sweep_leaves_the_end_of_each_chain() -> None:
    """Old blobs go; the newest of a partition stays however old, and so does what the sink needs."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    blobs = [
        (name, now - timedelta(minutes=age))
        for name, age in [
            ("local/readings/00000/00000000000000000000.jsonl", 90),
            ("local/readings/00000/00000000000000000500.jsonl", 80),
            ("local/readings/00001/00000000000000000000.jsonl", 90),
            ("local/readings/00001/00000000000000000700.jsonl", 1),
            ("spark/_ehkafka.json", 90),
            ("spark/batch=000000000000/_manifest.json", 90),
            ("spark/batch=000000000000/part-00000.jsonl", 90),
            ("spark/batch=000000000001/part-00000.jsonl", 1),
        ]
    ]
    assert old(blobs, now - timedelta(minutes=30)) == [
        "local/readings/00000/00000000000000000000.jsonl",
        "local/readings/00001/00000000000000000000.jsonl",
        "spark/batch=000000000000/_manifest.json",
        "spark/batch=000000000000/part-00000.jsonl",
    ]
