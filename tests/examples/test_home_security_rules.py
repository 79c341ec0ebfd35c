"""The home-security pipeline's pure parts: what is sent, what counts, how rows add up, what is deleted."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import groupby, islice, pairwise
from typing import Any

import orjson
import pytest
from home_pipeline import layout
from home_pipeline.readings import (
    CARBON_MONOXIDE,
    LIVELY_HOMES,
    NEW_SENSOR,
    SENSORS,
    SPOILT,
    Reading,
    Round,
    Town,
    encode,
)
from home_pipeline.rules import CLOCK_TOLERANCE_US, LATEST_MS, Windows, counted, parse
from home_pipeline.sweep import old
from home_pipeline.table import SILENT_S_MIN

BEGIN_US = 1_790_000_000_000_000
GOOD = Reading("home-000007", "temperature", "°C", BEGIN_US, 20.25, alarm=False)


def a_town(**other: Any) -> Town:
    """Return a small town."""
    return Town(homes=300, rate=500, begin_us=BEGIN_US, **other)


def test_a_reading_counts_exactly_when_it_was_not_spoilt() -> None:
    """Every good reading is counted as it was meant, every other one as spoilt; there are both kinds."""
    sent = list(islice(a_town().sent(), 20_000))
    for one in sent:
        spoilt = Reading(one.key, SPOILT, "", one.timestamp_ms * 1000, 1.0, alarm=False)
        meant = one.reading if one.left_out is None else spoilt
        assert counted(one.key.encode(), one.value, one.timestamp_ms) == meant
    assert {one.left_out for one in sent} == {None, "broken", "wrong clock"}


@pytest.mark.parametrize("key", [None, b"", b"home-7", b"home-000007\n", b"\xff", "home-\u0660".encode()])
def test_what_no_home_has_sent_is_not_even_spoilt(key: bytes | None) -> None:
    """A reading counts whatever its key; anything else needs the key of a home, and a time that can be."""
    assert counted(key, b"", BEGIN_US // 1000) is None
    assert counted(key, encode(GOOD), BEGIN_US // 1000) == GOOD
    assert counted(b"home-000007", b"", -1) is None
    assert counted(b"home-000007", None, LATEST_MS) is None


def test_each_sensor_has_its_turn_at_a_regular_interval() -> None:
    """Whatever the number of homes: all of them once, then all of them again in the same order."""
    for homes in (1, 7, 100, 250):
        turns = Round(homes, SENSORS)
        first = [turns.next() for _ in range(turns.sensors)]
        assert {(home, sensor.kind) for home, sensor in first} == {
            (home, sensor.kind) for home in range(homes) for sensor in SENSORS if sensor.is_in(home)
        }
        assert len(first) == len(set(first))
        assert [turns.next() for _ in range(turns.sensors)] == first


def test_a_sensor_that_is_not_silent_is_heard_in_each_interval() -> None:
    """What the page calls silent for so many intervals is one that has said nothing."""
    town = Town(homes=300, rate=500, begin_us=BEGIN_US, new_sensor_after_s=0, sold=[CARBON_MONOXIDE])
    sold = (*SENSORS, NEW_SENSOR, CARBON_MONOXIDE)
    last: dict[tuple[str, str], int] = {}
    longest_us = 0
    for one in islice(town.sent(), 20_000):
        place = (one.reading.home, one.reading.kind)
        sent_us = one.timestamp_ms * 1000
        longest_us = max(longest_us, sent_us - last.get(place, sent_us))
        last[place] = sent_us
    assert longest_us <= town.interval_s * 1_010_000 + 2_000
    begin_s, end_s = BEGIN_US / 1e6, BEGIN_US / 1e6 + 40
    silent = {
        (f"home-{home:06d}", sensor.kind)
        for home in range(300)
        for sensor in sold
        if sensor.is_in(home) and sensor.is_silent(1, home, begin_s - 2) and sensor.is_silent(1, home, end_s)
    }
    everything = {(f"home-{home:06d}", one.kind) for home in range(300) for one in sold if one.is_in(home)}
    assert silent
    assert silent <= everything - last.keys()


def test_in_lively_homes_sensors_fall_silent_within_minutes_and_speak_again() -> None:
    """A person who tries the demo sees it; a silence is long enough to be noticed, which takes 2 minutes."""
    begin_s = BEGIN_US // 1_000_000
    lasted_s = []
    for home in range(LIVELY_HOMES):
        for sensor in SENSORS:
            silent = [sensor.is_silent(1, home, begin_s + second) for second in range(0, 1_800, 10)]
            runs = [(is_silent, 10 * len([*run])) for is_silent, run in groupby(silent)]
            lasted_s += [run_s for is_silent, run_s in runs[1:-1] if is_silent]
    assert len(lasted_s) > 20
    assert min(lasted_s) >= SILENT_S_MIN - 10
    assert max(lasted_s) < 1_800


def test_a_door_stays_as_it_is_for_a_while() -> None:
    """Its state follows from the time: asked again it is the same, and it changes now and then."""
    [door] = [sensor for sensor in SENSORS if sensor.kind == "door_front"]
    draw = random.Random(1)
    for home in (LIVELY_HOMES - 1, LIVELY_HOMES):
        said = [door.value(draw, 1, home, BEGIN_US / 1e6 + second) for second in range(0, 36_000, 10)]
        again = [door.value(draw, 1, home, BEGIN_US / 1e6 + second) for second in range(0, 36_000, 10)]
        changes = sum(before != after for before, after in pairwise(said))
        assert said == again
        assert {*said} == {0.0, 1.0}
        assert 2 <= changes <= 240


def test_what_is_sold_later_speaks_from_then_on() -> None:
    """A kind after its time; another with the next reading after somebody has added it."""
    sold: list[Any] = []
    town = a_town(new_sensor_after_s=10, sold=sold)
    sent = town.sent()
    assert not {one.reading.kind for one in islice(sent, 5_000)} & {"water", "carbon_monoxide"}
    assert "water" in {one.reading.kind for one in islice(sent, 5_000)}
    sold.append(CARBON_MONOXIDE)
    assert "carbon_monoxide" in {one.reading.kind for one in islice(sent, 5_000)}


@pytest.mark.parametrize(
    "spoilt",
    [
        {"home": "home-000007\n"},
        {"home": "home-" + "\u0660" * 6},
        {"home": "../home-000007"},
        {"home": 7},
        {"kind": "Temperature"},
        {"kind": "t" * 25},
        {"kind": SPOILT},
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


def test_rows_add_up_in_any_order_and_any_portions() -> None:
    """Readings counted at once, or in portions that are added in another order, make the same rows.

    Also readings of the same sensor and time that say something else.
    """
    draw = random.Random(1)
    sent = [counted(one.key.encode(), one.value, one.timestamp_ms) for one in islice(a_town().sent(), 3_000)]
    readings = [one._replace(at_us=one.at_us // 1_000_000 * 1_000_000) for one in sent if one is not None]
    readings += [one._replace(value=draw.randrange(9) / 4, alarm=True) for one in readings[::3]]
    at_once = layout.rows_of(readings, Windows())
    portions = [readings[begin : begin + 117] for begin in range(0, len(readings), 117)]
    draw.shuffle(portions)
    added: dict[tuple[Any, ...], layout.Row] = {}
    for row in (row for portion in portions for row in layout.rows_of(portion, Windows())):
        added[row[:5]] = layout.added(added[row[:5]], row) if row[:5] in added else row
    assert sorted(added.values()) == sorted(at_once)
    assert sum(row.readings for row in at_once) == len(readings)


def test_a_batch_counts_when_its_manifest_is_there() -> None:
    """Spark's blobs wait for the manifest of their batch; the local engine's count at once; others never."""
    half = ["s/batch=000000000001/part-00000.jsonl", "s/batch=000000000001/part-00001.jsonl"]
    whole = ["s/batch=000000000000/_manifest.json", "s/batch=000000000000/part-00000.jsonl"]
    local = ["local/readings/00003/00000000000000000001.jsonl"]
    assert layout.complete([*half, *whole, *local, "s/_ehkafka.json"]) == [whole[1], *local]
    assert layout.complete([*half, "s/batch=000000000001/_manifest.json"]) == half


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


@pytest.mark.parametrize(
    "spoilt",
    [
        *({"home": "<script>"}, {"kind": "a b"}, {"unit": '"'}, {"unit": "x" * 2000}),
        *({"readings": -1}, {"readings": "1"}, {"alarms": True}, {"total": None}, {"low": "NaN"}),
        {"alarm_at_us": -1},
    ],
)
def test_a_line_that_is_no_row_is_refused_with_its_place(spoilt: dict[str, Any]) -> None:
    """Other programs write blobs, too: each line is checked."""
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
