"""The page's table: rows of the last day or so, by minute and home, in a temporary SQLite file.

Built from blobs alone and gone with the process; bounded: what is older than `keep_s` is deleted. Only
what people have acknowledged is in a file that stays. The follower's thread writes, the page's threads read;
each side has a connection and a lock of its own. A sensor's last reading and each alarm are kept apart from
the minutes, so that no question has to look at all of those. Spoilt readings are in the windows alone.
"""

from __future__ import annotations

import math
import sqlite3
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from home_pipeline.readings import SPOILT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from home_pipeline.layout import Row

MINUTE_S = 60
LATELY_S = 360
SILENT_S = 900.0
SILENT_S_MIN, SILENT_TURNS = 120, 3
"""A sensor is called silent after so many turns without a word, and not before so many seconds."""
GATHERED_S = 5.0
"""How much later than a window's end each partition's latest reading must be, before the window counts as
whole: readings are not quite in order. Spark's batches hold whole windows."""
OWN_TURNS = 10
"""A sensor that was heard so often is judged by its own interval; any other, after `silent_s`."""

_TABLES = """
create table kinds (id integer primary key, kind text, unit text, since_s integer, unique (kind, unit));
create table minutes (
    minute_s integer, home integer, kind integer, readings integer, alarms integer,
    total real, low real, high real, last real, last_at_us integer,
    primary key (minute_s, home, kind)
) without rowid;
create table sensors (
    home integer, kind integer, begin_s integer, readings integer, last_at_us integer,
    primary key (home, kind)
) without rowid;
create table alarms (
    home integer, kind integer, begin_s integer, alarms integer, high real, at_us integer,
    primary key (home, kind, begin_s)
) without rowid;
create index latest_alarms on alarms (at_us);
create table windows (
    begin_s integer, length_s integer, kind integer, readings integer, alarms integer,
    primary key (begin_s, kind)
) without rowid;
create table if not exists people.acknowledged (
    home integer, kind text, up_to_us integer, at_s real, primary key (home, kind, up_to_us)
) without rowid;
create table sums (readings integer, rows integer, blobs integer, latest_us integer);
insert into sums values (0, 0, 0, 0);
create table reached (partition text primary key, whole_s real) without rowid;
create table silence (most_us integer, least_us integer, turns integer, own_turns integer);
"""

# Of the readers' connection: a view of two files is of no file.
_LISTED = """
create temp view listed as
select home, kinds.kind as kind, unit, at_us, alarms, high, (
    select min(at_s) from people.acknowledged as done
    where done.home = alarms.home and done.kind = kinds.kind and done.up_to_us >= alarms.at_us
) as done_s
from alarms join kinds on id = alarms.kind
"""

# After how long each sensor is silent, and whether it is. Its interval is the mean of all that it has had.
# `cross` keeps the order of the sensors, in which they are counted.
_HEARD = """
create view heard as select *, last_at_us < (select latest_us from sums) - after_us as is_silent from (
    select home, kind, last_at_us, case
        when readings < own_turns then most_us
        else min(most_us, max(least_us, turns * (last_at_us - begin_s * 1000000) / readings))
    end as after_us
    from sensors cross join silence
)
"""

_ADD_KIND = """
insert into kinds (kind, unit, since_s) values (?, ?, ?)
on conflict do update set since_s = min(since_s, excluded.since_s) returning id
"""

_ADD_MINUTE = """
insert into minutes values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict do update set
    readings = readings + excluded.readings,
    alarms = alarms + excluded.alarms,
    total = total + excluded.total,
    low = min(low, excluded.low),
    high = max(high, excluded.high),
    last = case
        when (excluded.last_at_us, excluded.last) > (last_at_us, last) then excluded.last else last end,
    last_at_us = max(last_at_us, excluded.last_at_us)
"""

_ADD_SENSOR = """
insert into sensors values (?, ?, ?, ?, ?)
on conflict do update set
    begin_s = min(begin_s, excluded.begin_s),
    readings = readings + excluded.readings,
    last_at_us = max(last_at_us, excluded.last_at_us)
"""

_ADD_ALARM = """
insert into alarms values (?, ?, ?, ?, ?, ?)
on conflict do update set
    alarms = alarms + excluded.alarms, high = max(high, excluded.high), at_us = max(at_us, excluded.at_us)
"""

_ADD_WINDOW = """
insert into windows values (?, ?, ?, ?, ?)
on conflict do update set readings = readings + excluded.readings, alarms = alarms + excluded.alarms
"""

# By the home, in the order that the rows are in: nothing is sorted.
_LATELY = """
select sum(speaks), sum(is_silent), sum(silent) from (
    select max(last_at_us >= ?) speaks, max(is_silent) is_silent, sum(is_silent) silent
    from heard group by home
)
"""
_LATEST_SILENT = """
select home, kinds.kind, last_at_us from heard join kinds on id = heard.kind
where is_silent order by last_at_us desc, home limit 20
"""

_ADD_SUMS = """
update sums set readings = readings + ?, rows = rows + ?, blobs = blobs + 1, latest_us = max(latest_us, ?)
"""
_ADD_REACHED = """
insert into reached values (?, ?) on conflict do update set whole_s = max(whole_s, excluded.whole_s)
"""


class Lately(NamedTuple):
    """How many homes were heard of lately, and what has fallen silent."""

    homes: int
    silent_homes: int
    silent_sensors: int
    latest: list[tuple[int, str, int]]
    """Home, kind and last time of those that have fallen silent, the latest first, 20 at most."""


class Table:
    """Rows in, questions out. To be closed."""

    def __init__(self, *, keep_s: int, silent_s: float = SILENT_S, folder: Path | None = None) -> None:
        """Make it; what was acknowledged is read from, and goes to, a file of the folder, if one is given."""
        self.keep_s = keep_s
        self._folder = tempfile.TemporaryDirectory(prefix="home-security-")
        own = Path(self._folder.name)
        people = (folder or own) / "acknowledged.db"
        self._writing, self._reading = threading.Lock(), threading.Lock()
        self._writer = _connect(own / "table.db", people)
        self._writer.executescript(_TABLES + _HEARD)
        silence = (int(silent_s * 1_000_000), SILENT_S_MIN * 1_000_000, SILENT_TURNS, OWN_TURNS)
        with self._writer:
            self._writer.execute("insert into silence values (?, ?, ?, ?)", silence)
        self._reader = _connect(own / "table.db", people)
        self._reader.execute(_LISTED)
        self._reader.execute("pragma query_only = on")
        # When to count again, and what there was; one tuple, replaced by any thread.
        self._lately = (-math.inf, Lately(0, 0, 0, []))

    def add(self, rows: Sequence[Row], partition: str | None = "") -> None:
        """Add one blob's rows, all or none: of a partition, or (None) of a batch of whole windows."""
        with self._writing, self._writer as database:
            known = {
                kind: database.execute(_ADD_KIND, (*kind, since_s)).fetchall()[0][0]
                for kind, since_s in _since(rows).items()
            }
            kinds = [known[row.kind, row.unit] for row in rows]
            database.executemany(_ADD_WINDOW, _windows(rows, kinds))
            heard = [
                (row, home_number(row.home), kind)
                for row, kind in zip(rows, kinds, strict=True)
                if row.kind != SPOILT
            ]
            database.executemany(
                _ADD_MINUTE,
                ((row.begin_s // MINUTE_S * MINUTE_S, home, kind, *row[5:12]) for row, home, kind in heard),
            )
            database.executemany(
                _ADD_SENSOR,
                ((home, kind, row.begin_s, row.readings, row.last_at_us) for row, home, kind in heard),
            )
            database.executemany(
                _ADD_ALARM,
                (
                    (home, kind, row.begin_s, row.alarms, row.high, row.alarm_at_us)
                    for row, home, kind in heard
                    if row.alarms
                ),
            )
            latest_us = max((row.last_at_us for row, *_ in heard), default=0)
            ends_s = max((row.begin_s + row.length_s for row in rows), default=0)
            whole_s = ends_s if partition is None else latest_us / 1e6 - GATHERED_S
            readings = sum(row.readings for row, *_ in heard)
            database.execute(_ADD_SUMS, (readings, len(rows), latest_us))
            database.execute(_ADD_REACHED, (partition or "", whole_s))

    def forget(self) -> None:
        """Delete what is older than `keep_s` before the latest reading."""
        with self._writing, self._writer as database:
            (latest_us,) = database.execute("select latest_us from sums").fetchone()
            bound_s = latest_us // 1_000_000 - self.keep_s
            database.execute("delete from minutes where minute_s < ?", (bound_s - MINUTE_S,))
            database.execute("delete from windows where begin_s < ?", (bound_s - MINUTE_S,))
            database.execute("delete from sensors where last_at_us < ?", (bound_s * 1_000_000,))
            database.execute("delete from alarms where at_us < ?", (bound_s * 1_000_000,))
            database.execute("delete from acknowledged where up_to_us < ?", (bound_s * 1_000_000,))

    def acknowledge(self, home: int, kind: str, up_to_us: int, at_s: float) -> None:
        """Note that a home's alarms of a kind, up to a time, were acknowledged; the first time counts."""
        with self._writing, self._writer as database:
            values = (home, kind, up_to_us, at_s)
            database.execute("insert or ignore into acknowledged values (?, ?, ?, ?)", values)

    def ask(self, question: str, values: Sequence[Any] | dict[str, Any] = ()) -> list[tuple[Any, ...]]:
        """Return the answer to a query. Any thread."""
        with self._reading, closing(self._reader.execute(question, values)) as answer:
            return answer.fetchall()

    def lately(self) -> Lately:
        """Return how many homes speak, and what does not; counting takes a tenth of the time."""
        next_s, found = self._lately
        begin_s = time.monotonic()
        if begin_s > next_s:
            [(latest_us,)] = self.ask("select latest_us from sums")
            [(homes, silent_homes, sensors)] = self.ask(_LATELY, (latest_us - LATELY_S * 1_000_000,))
            found = Lately(homes or 0, silent_homes or 0, sensors or 0, self.ask(_LATEST_SILENT))
            took_s = time.monotonic() - begin_s
            self._lately = (begin_s + 10 * took_s, found)
        return found

    def close(self) -> None:
        """Close both connections and remove the file."""
        with self._writing, self._reading:
            self._writer.close()
            self._reader.close()
        self._folder.cleanup()


def _since(rows: Sequence[Row]) -> dict[tuple[str, str], int]:
    """Return when the first window of each kind and unit begins."""
    found: dict[tuple[str, str], int] = {}
    for row in rows:
        kind = (row.kind, row.unit)
        found[kind] = min(row.begin_s, found.get(kind, row.begin_s))
    return found


def home_number(home: str) -> int:
    """Return what the table keeps of a home's name; the name must be a valid one."""
    return int(home.removeprefix("home-"))


def _connect(path: Path, people: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, check_same_thread=False)
    database.execute("attach ? as people", (str(people),))
    for name in ("main", "people"):
        database.execute(f"pragma {name}.journal_mode = wal")
    # The blobs are the truth: after a crash the file is not even looked at again. The people's file is.
    database.execute("pragma main.synchronous = off")
    return database


def _windows(rows: Sequence[Row], kinds: Sequence[int]) -> list[tuple[int, ...]]:
    found: dict[tuple[int, int, int], tuple[int, int]] = {}
    for row, kind in zip(rows, kinds, strict=True):
        readings, alarms = found.get((row.begin_s, row.length_s, kind), (0, 0))
        found[row.begin_s, row.length_s, kind] = (readings + row.readings, alarms + row.alarms)
    return [(*key, *counts) for key, counts in found.items()]
