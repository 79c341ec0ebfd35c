"""What the page asks the table: all homes, one home, alarms, a search. Plain values, ready to become JSON.

Reads only, but for what people acknowledge. A home's name must have been checked before; times come in.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from home_pipeline.names import address, home_name, label, meant
from home_pipeline.readings import SPOILT
from home_pipeline.table import home_number

if TYPE_CHECKING:
    from home_pipeline.table import Table

KINDS_MAX = 16
NEWEST = {"home": None, "kind": None, "is_open": False, "limit": 14}
ALARMS_OF_HOME = 50
FOUND_MAX = 10
NEW_FOR_S = 300
LATE_S, LATE_WINDOWS = 30, 3
"""So many seconds and windows after the latest counted reading an engine that runs has counted others."""

_KINDS = """
select id, kinds.kind, unit, since_s from kinds join windows on windows.kind = id
where kinds.kind <> ? group by id order by sum(readings) desc limit ?
"""
# Not from the table of minutes itself, which has millions of rows.
_MINUTES = "select distinct begin_s / 60 * 60 as minute_s from windows where minute_s >= ? order by 1"
_OF_HOME = """
select kind, minute_s, readings, alarms, total, low, high, last, last_at_us
from minutes
where home = ? and minute_s in (select begin_s / 60 * 60 from windows)
order by minute_s
"""
_SILENT_AFTER = "select kind, after_us from heard where home = ?"
_LISTED = """
from listed
where (:home is null or home = :home) and (:kind is null or kind = :kind) and (not :is_open or done_s is null)
"""
_LIST = f"""
select home, kind, unit, at_us, alarms, high, done_s {_LISTED} order by at_us desc, home, kind limit :limit
"""
_COUNT = f"select count(*), count(*) - count(done_s) {_LISTED}"
_FIND = """
select distinct home from sensors
where home in (select value from json_each(?)) or home % 1000 in (select value from json_each(?)) limit ?
"""


class Minute(NamedTuple):
    """What one sensor of a home said in a minute."""

    minute_s: int
    readings: int
    alarms: int
    total: float
    low: float
    high: float
    last: float
    last_at_us: int


def head(table: Table, now_s: float, late_s: float | None = None) -> dict[str, Any]:
    """Return what each answer begins with: as of when it is, and whether nothing was counted for too long."""
    [(as_of_s, length_s)] = table.ask("select latest_us / 1e6, (select max(length_s) from windows) from sums")
    if late_s is None:
        late_s = LATE_S + LATE_WINDOWS * (length_s or 0)
    is_late = bool(as_of_s and now_s - as_of_s > late_s)
    return {"now_s": now_s, "as_of_s": as_of_s, "keep_s": table.keep_s, "is_late": is_late}


def overview(table: Table, of: dict[str, Any], hours: float) -> dict[str, Any]:
    """Return totals, readings per window and kind, the newest alarms, and what has fallen silent."""
    [(readings, rows, blobs)] = table.ask("select readings, rows, blobs from sums")
    [(whole_s,)] = table.ask("select min(whole_s) from reached")
    as_of_s = of["as_of_s"]
    begin_s = as_of_s - hours * 3600
    kinds = _kinds(table, as_of_s)
    begins, length_s, series, alarms = _windows(table, begin_s)
    none = [0] * len(begins)
    shown = [series.get(kind, none) for kind in kinds]
    [(number,)] = table.ask("select max(id) from kinds where kind = ?", (SPOILT,))
    spoilt = series.get(number, none)
    lately = table.lately()
    return of | {
        "readings": readings,
        "rows": rows,
        "blobs": blobs,
        "kinds": [
            {"label": label(kind["kind"]), "readings": counts} | kind
            for kind, counts in zip(kinds.values(), shown, strict=True)
        ],
        "windows": {
            "begin_s": begins,
            "length_s": length_s,
            "alarms": alarms,
            "is_whole": [begin_s + length_s <= whole_s for begin_s in begins],
        },
        "spoilt": {
            "share": sum(spoilt) / (sum(spoilt) + sum(map(sum, shown))) if begins else None,
            "count": sum(spoilt),
            "per_window": spoilt,
        },
        "silent": {
            "homes": lately.silent_homes,
            "sensors": lately.silent_sensors,
            "latest": [
                _named(home, kind) | {"last_at_s": at_us / 1e6} for home, kind, at_us in lately.latest
            ],
        },
        "homes": lately.homes,
        "alarms": _listed(table, NEWEST),
    }


def home(table: Table, of: dict[str, Any], name: str, hours: float) -> dict[str, Any]:
    """Return what is known of one home, minute by minute; without any readings its `sensors` are empty."""
    begin_s = of["as_of_s"] - hours * 3600
    minutes = [minute_s for (minute_s,) in table.ask(_MINUTES, (begin_s,))]
    found: dict[int, list[Minute]] = {}
    for kind, *values in table.ask(_OF_HOME, (home_number(name),)):
        found.setdefault(kind, []).append(Minute(*values))
    named = {number: (kind, unit) for number, kind, unit in table.ask("select id, kind, unit from kinds")}
    silent_after_us = dict(table.ask(_SILENT_AFTER, (home_number(name),)))
    sensors = [
        # One that has just been deleted was silent for longer than is kept.
        _sensor(*named[kind], silent_after_us.get(kind, 0), of["as_of_s"] * 1e6, minutes, rows)
        for kind, rows in sorted(found.items())
    ]
    listed = alarms(table, home=name, limit=ALARMS_OF_HOME)
    return of | {
        "home": name,
        "name": address(home_number(name)),
        "state": _state(sensors, is_alarmed=listed["open"] > 0, is_late=of["is_late"]),
        "minutes": minutes,
        "sensors": sensors,
        "alarms": listed["alarms"],
        "open_alarms": listed["open"],
    }


def alarms(
    table: Table, *, home: str | None = None, kind: str | None = None, is_open: bool = False, limit: int
) -> dict[str, Any]:
    """Return alarms, the newest first, and how many there are of this home and kind."""
    values = {"home": None if home is None else home_number(home), "kind": kind, "limit": limit}
    [(total, waiting)] = table.ask(_COUNT, values | {"is_open": False})
    return {"alarms": _listed(table, values | {"is_open": is_open}), "open": waiting, "total": total}


def acknowledge(table: Table, home: str, kind: str, up_to_us: int, now_s: float) -> dict[str, int]:
    """Acknowledge a home's alarms of a kind up to a time; return how many of them had waited for that."""
    values = {"home": home_number(home), "kind": kind, "is_open": True, "limit": -1}
    waiting = sum(at_us <= up_to_us for _home, _kind, _unit, at_us, *_ in table.ask(_LIST, values))
    if waiting:
        table.acknowledge(home_number(home), kind, up_to_us, now_s)
    return {"acknowledged": waiting}


def find(table: Table, query: str) -> dict[str, Any]:
    """Return the homes that a search means and that have been heard of."""
    found = table.ask(_FIND, (*map(json.dumps, meant(query)), FOUND_MAX))
    homes = [{"home": home_name(number), "name": address(number)} for (number,) in found]
    return {"query": query, "homes": homes}


def _kinds(table: Table, as_of_s: float) -> dict[int, dict[str, Any]]:
    [(first_s, length_s)] = table.ask("select (select min(since_s) from kinds), max(length_s) from windows")
    return {
        number: {
            "kind": kind,
            "unit": unit,
            "since_s": since_s,
            "new": since_s > first_s + 2 * length_s and as_of_s - since_s < NEW_FOR_S,
        }
        for number, kind, unit, since_s in table.ask(_KINDS, (SPOILT, KINDS_MAX))
    }


def _windows(table: Table, begin_s: float) -> tuple[list[int], int, dict[int, list[int]], list[int]]:
    """Return the windows from a time on: when they begin, how long they are, readings by kind, alarms."""
    rows = table.ask(
        "select begin_s, length_s, kind, readings, alarms from windows where begin_s >= ? order by begin_s",
        (begin_s,),
    )
    if not rows:
        return [], 0, {}, []
    length_s = rows[-1][1]
    begins = list(range(rows[0][0], rows[-1][0] + 1, length_s))
    place = {begin_s: index for index, begin_s in enumerate(begins)}
    series: dict[int, list[int]] = {}
    alarms = [0] * len(begins)
    for at_s, _length_s, kind, readings, alarmed in rows:
        index = place.get(at_s)
        if index is not None:
            alarms[index] += alarmed
            series.setdefault(kind, [0] * len(begins))[index] = readings
    return begins, length_s, series, alarms


def _named(home: int, kind: str) -> dict[str, Any]:
    return {"home": home_name(home), "name": address(home), "kind": kind, "label": label(kind)}


def _listed(table: Table, values: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        _named(home, kind)
        | {"unit": unit, "at_s": at_us / 1e6, "alarms": count, "high": high, "acknowledged_at_s": done_s}
        for home, kind, unit, at_us, count, high, done_s in table.ask(_LIST, values)
    ]


def _sensor(
    kind: str, unit: str, silent_after_us: int, as_of_us: float, minutes: list[int], rows: list[Minute]
) -> dict[str, Any]:
    """Return what is known of a sensor: its state of all rows, its numbers of these minutes."""
    latest = rows[-1]
    by_minute = {row.minute_s: row for row in rows}
    there = [by_minute.get(minute) for minute in minutes]
    shown = [row for row in there if row]
    # A switch says 0 or 1 and has no unit; what nobody has heard of yet may be one, too.
    is_switch = not unit and all(row.low in {0, 1} and row.high in {0, 1} for row in rows)
    since_s, is_earliest = since(rows)
    return {
        "kind": kind,
        "label": label(kind),
        "unit": unit,
        "is_switch": is_switch,
        "value": latest.last,
        "last_at_s": latest.last_at_us / 1e6,
        "since_s": since_s if is_switch else None,
        "since_is_earliest": is_switch and is_earliest,
        "is_silent": latest.last_at_us < as_of_us - silent_after_us,
        "silent_s": silent_after_us / 1e6,
        "count": sum(row.readings for row in shown),
        "alarms": sum(row.alarms for row in shown),
        "total": sum(row.total for row in shown),
        "lowest": min((row.low for row in shown), default=latest.last),
        "highest": max((row.high for row in shown), default=latest.last),
        "readings": [row.readings if row else 0 for row in there],
        "mean": [row.total / row.readings if row else None for row in there],
        "low": [row.low if row else None for row in there],
        "high": [row.high if row else None for row in there],
    }


def since(rows: list[Minute]) -> tuple[int, bool]:
    """Return the minute in which a sensor began to say what it said last; whether that may be earlier, too.

    Back from the latest minute, while nothing else was said; minutes in which it said nothing do not count.
    """
    begin_s = rows[-1].minute_s
    for row in reversed(rows):
        if row.last != rows[-1].last:
            return begin_s, False
        begin_s = row.minute_s
        if row.low != row.high:
            return begin_s, False
    return begin_s, True


def _state(sensors: list[dict[str, Any]], *, is_alarmed: bool, is_late: bool) -> str:
    """Return a home's state: what a person has to do comes before what is not known."""
    if is_alarmed:
        return "alarm"
    speaking = [one for one in sensors if not one["is_silent"]]
    if any(one["kind"].startswith(("door", "window")) and one["value"] for one in speaking):
        return "open"
    if len(speaking) < len(sensors):
        return "silent"
    return "unknown" if not sensors or is_late else "quiet"
