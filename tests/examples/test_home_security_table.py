"""What the home-security page makes of rows: the same in any order, and as a plain count has it."""

from __future__ import annotations

import random
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from home_pipeline import layout
from home_pipeline.names import STREETS, address, home_name, label, meant
from home_pipeline.page import answers
from home_pipeline.readings import SPOILT, Reading
from home_pipeline.rules import Windows
from home_pipeline.table import Table

from tests.kit.home_town import SILENT_S, Heard, of_home, wanted_of_home
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

BEGIN_US = 1_790_000_000_000_000
KEEP_S = 86_400
HOME = "home-000007"
KINDS = {"door_front": "", "window_kitchen": "", "motion": "", "glass_break": "", "smoke": "%"}


@pytest.mark.parametrize("seed", range(40))
def test_a_home_is_shown_as_a_plain_count_of_its_readings_has_it(seed: int) -> None:
    """States, since when, silence, alarms and sums, whatever portions come in whatever order."""
    draw = random.Random(seed)
    readings = random_readings(draw)
    with closing(table_of(portions_of(readings, draw))) as table:
        of = answers.head(table, BEGIN_US / 1e6, late_s=KEEP_S)
        shown = {home: of_home(answers.home(table, of, home, 24.0)) for home in homes_of(readings)}
    as_of_us = max(reading.at_us for reading in readings)
    for home, found in shown.items():
        said = [
            Heard(one.home, one.kind, one.at_us, one.value, one.alarm) for one in readings if one.home == home
        ]
        assert found == wanted_of_home(said, as_of_us)


def test_what_is_silent_is_counted_by_home_and_by_sensor() -> None:
    """The latest to fall silent come first; a sensor that speaks again is silent no more."""
    door, smoke = ("door_front", 10), ("smoke", 30)
    readings = [a_reading("home-000001", *door), a_reading("home-000001", *smoke)]
    readings += [a_reading("home-000002", *door), a_reading("home-000003", "motion", 60)]
    with closing(table_of([readings])) as table:
        found = overview(table)
        assert found["silent"]["homes"] == 2
        assert found["silent"]["sensors"] == 3
        latest = [
            (one["home"], one["kind"], one["last_at_s"] - BEGIN_US / 1e6) for one in found["silent"]["latest"]
        ]
        assert latest == [
            ("home-000001", "smoke", 30),
            ("home-000001", "door_front", 10),
            ("home-000002", "door_front", 10),
        ]
        assert found["homes"] == 3
        table.add(layout.rows_of([a_reading("home-000002", "door_front", 59)], Windows()))
        wanted = {"homes": 1, "sensors": 2}
        # It is counted now and then.
        wait_until(lambda: {name: overview(table)["silent"][name] for name in wanted} == wanted)


def test_a_sensor_is_silent_after_three_of_its_own_intervals() -> None:
    """Not before two minutes; one that has hardly spoken only after the time that is right for all."""
    readings = [a_reading(HOME, "motion", second) for second in range(0, 1_001, 50)]
    readings += [a_reading(HOME, "smoke", second) for second in range(900, 1_001)]
    readings += [a_reading(HOME, "door_front", second) for second in range(992, 1_001)]
    with closing(table_of(portions_of(readings, random.Random(1)), silent_s=1_000.0)) as table:

        def silent(after_s: int) -> list[str]:
            now = a_reading("home-000001", "motion", 1_000 + after_s)
            table.add(layout.rows_of([now], Windows()))
            sensors = answers.home(table, answers.head(table, now.at_us / 1e6), HOME, 24.0)["sensors"]
            return sorted(sensor["kind"] for sensor in sensors if sensor["is_silent"])

        assert silent(119) == []
        assert silent(121) == silent(140) == ["smoke"]
        assert silent(151) == silent(999) == ["motion", "smoke"]
        assert silent(1_001) == ["door_front", "motion", "smoke"]
        wait_until(lambda: overview(table)["silent"]["sensors"] == 3)


def test_spoilt_readings_are_counted_and_are_no_sensor() -> None:
    """They have a share of their own by window; no home, no kind and no total shows them."""
    readings = [a_reading(HOME, "smoke", second) for second in range(9)]
    spoilt = [Reading(HOME, SPOILT, "", BEGIN_US + 11_000_000, 1.0, alarm=False)]
    with closing(table_of([readings, spoilt])) as table:
        found = overview(table)
        home = answers.home(table, answers.head(table, BEGIN_US / 1e6), HOME, 24.0)
    assert found["spoilt"] == {"share": 0.1, "count": 1, "per_window": [0, 1]}
    assert [kind["kind"] for kind in found["kinds"]] == ["smoke"]
    assert found["readings"] == 9
    assert [sensor["kind"] for sensor in home["sensors"]] == ["smoke"]


def test_a_window_that_may_still_grow_is_named() -> None:
    """The local engine's latest windows are not whole; a batch of Spark's is, however young."""
    readings = [a_reading(HOME, "smoke", second) for second in range(0, 31, 10)]
    with closing(table_of([readings])) as table:
        assert overview(table)["windows"]["is_whole"] == [True, True, False, False]
        table.add(layout.rows_of([a_reading(HOME, "motion", 31)], Windows()), None)
        assert overview(table)["windows"]["is_whole"] == [True, True, True, True]


def test_a_window_is_whole_when_each_partition_has_passed_it() -> None:
    """A partition that is far behind still has readings for the windows that others have written."""
    ahead = [a_reading(HOME, "smoke", second) for second in range(0, 61, 10)]
    behind = [a_reading(HOME, "motion", second) for second in range(0, 31, 10)]
    with closing(table_of([])) as table:
        table.add(layout.rows_of(ahead, Windows()), "local/readings/00000")
        table.add(layout.rows_of(behind, Windows()), "local/readings/00001")
        assert overview(table)["windows"]["is_whole"] == [True, True, False, False, False, False, False]


def test_alarms_are_acknowledged_up_to_a_time(tmp_path: Path) -> None:
    """A later alarm, also in the same window, is open again; the first acknowledgement counts."""
    first, second = a_reading(HOME, "smoke", 3, 70.0), a_reading(HOME, "smoke", 5, 60.0)
    with closing(table_of([[first]], tmp_path)) as table:
        assert answers.acknowledge(table, HOME, "smoke", first.at_us - 1, 100.0) == {"acknowledged": 0}
        assert answers.acknowledge(table, HOME, "motion", first.at_us, 100.0) == {"acknowledged": 0}
        assert answers.acknowledge(table, HOME, "smoke", first.at_us, 100.0) == {"acknowledged": 1}
        assert answers.acknowledge(table, HOME, "smoke", first.at_us, 200.0) == {"acknowledged": 0}
        assert listed(table) == [(first.at_us, 1, 70.0, 100.0)]
        assert answers.alarms(table, is_open=True, limit=9) == {"alarms": [], "open": 0, "total": 1}
        table.add(layout.rows_of([second], Windows()))
        assert listed(table) == [(second.at_us, 2, 70.0, None)]
    with closing(table_of([[first]], tmp_path)) as restarted:
        assert listed(restarted) == [(first.at_us, 1, 70.0, 100.0)]


def test_what_is_older_than_is_kept_leaves_every_part_of_the_table(tmp_path: Path) -> None:
    """Minutes, windows, sensors, alarms, and what was acknowledged of them."""
    alarm = a_reading(HOME, "smoke", 0, 70.0)
    with closing(table_of([[alarm]], tmp_path)) as table:
        answers.acknowledge(table, HOME, "smoke", alarm.at_us, 100.0)
        table.add(layout.rows_of([a_reading("home-000001", "motion", KEEP_S + 300)], Windows()))
        table.forget()
        assert overview(table)["silent"]["sensors"] == 0
        for rows in ("minutes", "windows", "sensors"):
            assert table.ask(f"select count(*) from {rows}") == [(1,)], rows
        for rows in ("alarms", "people.acknowledged"):
            assert table.ask(f"select count(*) from {rows}") == [(0,)], rows


def test_a_search_finds_homes_that_were_heard_of() -> None:
    """By number, by name, by address or a part of it; what is no home finds nothing."""
    numbers = (7, 33, 1_007)
    with closing(table_of([[a_reading(home_name(number), "smoke", 1) for number in numbers]])) as table:

        def found(query: str) -> list[str]:
            return [home["home"] for home in answers.find(table, query)["homes"]]

        assert found("33") == found(" Home-000033 ") == found("home 33") == ["home-000033"]
        assert found(address(33)) == found(address(33).upper()) == ["home-000033"]
        assert found(STREETS[7].partition(" ")[0]) == ["home-000007", "home-001007"]
        for query in ("34", "", "%", "' or 1=1", "33 33", "0x21", "\u0663\u0663", "no such street"):
            assert found(query) == []


def test_each_home_has_an_address_of_its_own_that_leads_back() -> None:
    """No two of a million numbers have the same, and a search for it means that home."""
    draw = random.Random(1)
    numbers = draw.sample(range(1_000_000), 20_000)
    assert len({address(number) for number in numbers}) == len(numbers)
    assert all(number in meant(address(number))[0] for number in numbers[:300])


def test_a_kind_that_is_new_has_a_label() -> None:
    """From its own name, if no table has it."""
    assert [label(kind) for kind in ("door_front", "carbon_monoxide")] == ["Front door", "Carbon monoxide"]


def random_readings(draw: random.Random) -> list[Reading]:
    """Return readings of some homes in some minutes; several may be of one time."""
    readings = []
    for _ in range(draw.randrange(1, 120)):
        kind = draw.choice([*KINDS])
        value = draw.choice([0.0, 1.0]) if not KINDS[kind] else draw.choice([1.0, 2.5, 60.0])
        at_us = BEGIN_US + draw.randrange(300) * draw.choice([1_000_000, 10_000_000]) // draw.choice([1, 4])
        alarm = value == 60.0 or (kind == "glass_break" and value == 1.0)
        readings.append(Reading(f"home-{draw.randrange(3):06d}", kind, KINDS[kind], at_us, value, alarm))
    return readings


def portions_of(readings: list[Reading], draw: random.Random) -> list[list[Reading]]:
    """Return them in portions, in another order."""
    mixed = draw.sample(readings, len(readings))
    cuts = sorted(draw.sample(range(len(mixed) + 1), min(5, len(mixed))))
    return [mixed[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(mixed)], strict=True)]


def table_of(portions: list[list[Reading]], folder: Path | None = None, silent_s: float = SILENT_S) -> Table:
    """Return a table with a blob of each portion."""
    table = Table(keep_s=KEEP_S, silent_s=silent_s, folder=folder)
    for portion in portions:
        table.add(layout.rows_of(portion, Windows()))
    return table


def a_reading(home: str, kind: str, second: float, value: float = 1.0) -> Reading:
    """Return what a sensor says in a second; from 50 on it is an alarm."""
    return Reading(home, kind, KINDS[kind], BEGIN_US + round(second * 1e6), value, value >= 50)


def homes_of(readings: list[Reading]) -> set[str]:
    """Return the names of homes with readings."""
    return {reading.home for reading in readings}


def overview(table: Table) -> dict[str, Any]:
    """Return what all homes' page gets, with all that is kept."""
    return answers.overview(table, answers.head(table, BEGIN_US / 1e6 + KEEP_S), 24.0)


def listed(table: Table) -> list[tuple[int, int, float, float | None]]:
    """Return time, count, height and acknowledgement of each alarm."""
    return [
        (round(one["at_s"] * 1e6), one["alarms"], one["high"], one["acknowledged_at_s"])
        for one in answers.alarms(table, limit=9)["alarms"]
    ]
