"""What the page asks the table: the operator's overview, one home. Plain values, ready to become JSON.

Reads only. The home's name and the time come in as arguments; a name must have been checked before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from home_pipeline.table import MINUTE_S, home_number

if TYPE_CHECKING:
    from collections.abc import Iterable

    from home_pipeline.table import Table

KINDS_MAX = 12
ALARMS_MAX = 14
NEW_FOR_S = 300
GATHERED_S = 5.0
"""How much later than a window's end a reading must be there, before the window is shown: the local engine's
partitions write it one after another, and half of it would look like a fall. Spark writes whole windows."""

LATE_S, LATE_WINDOWS = 30, 3
"""So many seconds and windows after the latest counted reading an engine that runs has counted others."""


def is_late(table: Table, answer: dict[str, Any], late_s: float | None = None) -> bool:
    """Tell whether nothing was counted for so long that an answer no longer says how things are."""
    if late_s is None:
        late_s = LATE_S + LATE_WINDOWS * (table.ask("select max(length_s) from windows")[0][0] or 0)
    return bool(answer["as_of_s"] and answer["now_s"] - answer["as_of_s"] > late_s)


def overview(table: Table, now_s: float) -> dict[str, Any]:
    """Return totals, readings per window and kind, homes per minute, and the latest alarms."""
    sums = table.ask("select readings, rows, blobs, latest_us / 1e6, whole_s from sums")[0]
    readings, rows, blobs, as_of_s, whole_s = sums
    kinds = _kinds(table, as_of_s)
    over_s = max(whole_s, min(now_s, as_of_s) - GATHERED_S)
    begins, length_s, series, alarms = _windows(table, kinds, over_s)
    return {
        "now_s": now_s,
        "as_of_s": as_of_s,
        "keep_s": table.keep_s,
        "readings": readings,
        "rows": rows,
        "blobs": blobs,
        "kinds": [
            {"kind": kind, "unit": unit, "since_s": since_s, "new": is_new, "readings": series[number]}
            for number, kind, unit, since_s, is_new in kinds
        ],
        "windows": {"begin_s": begins, "length_s": length_s, "alarms": alarms},
        "minutes": _homes_per_minute(table, table.minutes(), over_s),
        "homes": table.homes_lately(),
        "alarms": _latest_alarms(table),
    }


def home(table: Table, name: str, now_s: float) -> dict[str, Any]:
    """Return what is known of one home, minute by minute; without any readings its `kinds` are empty."""
    as_of_s = table.ask("select latest_us / 1e6 from sums")[0][0]
    minutes = table.minutes()
    found = table.ask(_OF_HOME, (home_number(name),))
    kinds: dict[int, list[tuple[Any, ...]]] = {}
    for kind, *values in found:
        kinds.setdefault(kind, []).append(tuple(values))
    named = {number: (kind, unit) for number, kind, unit in table.ask("select id, kind, unit from kinds")}
    return {
        "home": name,
        "now_s": now_s,
        "as_of_s": as_of_s,
        "keep_s": table.keep_s,
        "minutes": minutes,
        "kinds": [
            _sensor(*named[kind], minutes, rows)
            for kind, rows in sorted(kinds.items(), key=lambda one: one[0])
        ],
        "alarms": _alarms_of(found, named),
    }


_OF_HOME = """
select kind, minute_s, readings, alarms, total, low, high, last, last_at_us
from minutes
where home = ? and minute_s in (select begin_s / 60 * 60 from windows)
order by minute_s, kind
"""


def _kinds(table: Table, as_of_s: float) -> list[tuple[int, str, str, int, bool]]:
    [(first_s, length_s)] = table.ask("select (select min(since_s) from kinds), max(length_s) from windows")
    found = table.ask(
        "select id, kinds.kind, unit, since_s from kinds join windows on windows.kind = id"
        " group by id order by sum(readings) desc limit ?",
        (KINDS_MAX,),
    )
    return [
        (number, kind, unit, since_s, since_s > first_s + 2 * length_s and as_of_s - since_s < NEW_FOR_S)
        for number, kind, unit, since_s in found
    ]


def _windows(
    table: Table, kinds: Iterable[tuple[int, str, str, int, bool]], over_s: float
) -> tuple[list[int], int, dict[int, list[int]], list[int]]:
    """Return the windows that are over: when they begin, how long they are, readings by kind, alarms."""
    rows = table.ask(
        "select begin_s, length_s, kind, readings, alarms from windows where begin_s + length_s <= ?",
        (over_s,),
    )
    if not rows:
        return [], 0, {number: [] for number, *_ in kinds}, []
    length_s = rows[-1][1]
    begins = list(range(min(row[0] for row in rows), max(row[0] for row in rows) + 1, length_s))
    place = {begin_s: index for index, begin_s in enumerate(begins)}
    series = {number: [0] * len(begins) for number, *_ in kinds}
    alarms = [0] * len(begins)
    for begin_s, _length_s, kind, readings, alarmed in rows:
        index = place.get(begin_s)
        if index is not None:
            alarms[index] += alarmed
            if kind in series:
                series[kind][index] = readings
    return begins, length_s, series, alarms


def _homes_per_minute(table: Table, minutes: list[int], over_s: float) -> dict[str, list[int]]:
    over = [minute for minute in minutes if minute + MINUTE_S <= over_s]
    counted = [table.homes_in(minute, is_over=minute + 2 * MINUTE_S < over_s) for minute in over]
    return {"begin_s": over, "homes": counted}


def _latest_alarms(table: Table) -> list[dict[str, Any]]:
    found = table.ask(
        "select home, kinds.kind, unit, alarms, high, minute_s from minutes indexed by alarms"
        " join kinds on id = minutes.kind where alarms > 0 order by minute_s desc, home limit ?",
        (ALARMS_MAX,),
    )
    names = ("home", "kind", "unit", "alarms", "high", "minute_s")
    return [dict(zip(names, (f"home-{home:06d}", *rest), strict=True)) for home, *rest in found]


def _sensor(kind: str, unit: str, minutes: list[int], rows: list[tuple[Any, ...]]) -> dict[str, Any]:
    by_minute = {row[0]: row for row in rows}
    there = [by_minute.get(minute) for minute in minutes]
    latest = max(rows, key=lambda row: row[7])
    return {
        "kind": kind,
        "unit": unit,
        "readings": [row[1] if row else 0 for row in there],
        "mean": [row[3] / row[1] if row else None for row in there],
        "low": [row[4] if row else None for row in there],
        "high": [row[5] if row else None for row in there],
        "count": sum(row[1] for row in rows),
        "alarms": sum(row[2] for row in rows),
        "lowest": min(row[4] for row in rows),
        "highest": max(row[5] for row in rows),
        "total": sum(row[3] for row in rows),
        "last": latest[6],
        "last_at_s": latest[7] / 1e6,
    }


def _alarms_of(found: list[tuple[Any, ...]], named: dict[int, tuple[str, str]]) -> list[dict[str, Any]]:
    return [
        {"kind": named[kind][0], "unit": named[kind][1], "minute_s": minute_s, "alarms": alarms, "high": high}
        for kind, minute_s, _readings, alarms, _total, _low, high, *_ in reversed(found)
        if alarms
    ][:ALARMS_MAX]
