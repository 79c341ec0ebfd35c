"""The page's table: rows of the last hour or so, by minute and home, in a temporary SQLite file.

Built from blobs alone and gone with the process; bounded, because what is older than `keep_s` is deleted.
The follower's thread writes, the page's threads read; each side has a connection and a lock of its own.
"""

from __future__ import annotations

import math
import sqlite3
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from home_pipeline.layout import Row

MINUTE_S = 60
LATELY_S = 360

_TABLES = """
create table kinds (id integer primary key, kind text, unit text, since_s integer, unique (kind, unit));
create table minutes (
    minute_s integer, home integer, kind integer, readings integer, alarms integer,
    total real, low real, high real, last real, last_at_us integer,
    primary key (minute_s, home, kind)
) without rowid;
create index alarms on minutes (minute_s) where alarms > 0;
create table windows (
    begin_s integer, length_s integer, kind integer, readings integer, alarms integer,
    primary key (begin_s, kind)
) without rowid;
create table sums (readings integer, rows integer, blobs integer, latest_us integer, whole_s integer);
insert into sums values (0, 0, 0, 0, 0);
"""

_ADD_MINUTE = """
insert into minutes values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict do update set
    readings = readings + excluded.readings,
    alarms = alarms + excluded.alarms,
    total = total + excluded.total,
    low = min(low, excluded.low),
    high = max(high, excluded.high),
    last = case when excluded.last_at_us >= last_at_us then excluded.last else last end,
    last_at_us = max(last_at_us, excluded.last_at_us)
"""

_ADD_WINDOW = """
insert into windows values (?, ?, ?, ?, ?)
on conflict do update set readings = readings + excluded.readings, alarms = alarms + excluded.alarms
"""

_LATELY = """
select count(distinct home) from minutes where minute_s >= (select latest_us / 1000000 from sums) - ?
"""

_ADD_SUMS = """
update sums set readings = readings + ?, rows = rows + ?, blobs = blobs + 1,
    latest_us = max(latest_us, ?), whole_s = max(whole_s, ?)
"""


class Table:
    """Rows in, questions out. To be closed."""

    def __init__(self, *, keep_s: int) -> None:
        self.keep_s = keep_s
        self._folder = tempfile.TemporaryDirectory(prefix="home-security-")
        path = Path(self._folder.name) / "table.db"
        self._writing, self._reading = threading.Lock(), threading.Lock()
        self._writer = _connect(path)
        self._writer.executescript(_TABLES)
        self._reader = _connect(path)
        self._reader.execute("pragma query_only = on")
        # Written and read by the writing thread alone.
        self._kinds: dict[tuple[str, str], tuple[int, int]] = {}
        # Homes in minutes that are over, and how often rows came: a count is kept if none came meanwhile.
        self._keeping = threading.Lock()
        self._homes: dict[int, int] = {}
        self._added = 0
        # When to count again, and how many there were; one tuple, replaced by any thread.
        self._lately = (-math.inf, 0)

    def add(self, rows: Sequence[Row], *, are_whole: bool = False) -> None:
        """Add one blob's rows, all or none. If `are_whole`, nothing more will come for their windows."""
        with self._writing, self._writer as database:
            known = {kind: self._number(kind, since_s) for kind, since_s in _since(rows).items()}
            kinds = [known[row.kind, row.unit] for row in rows]
            database.executemany(_ADD_MINUTE, map(_minute, rows, kinds))
            database.executemany(_ADD_WINDOW, _windows(rows, kinds))
            latest_us = max((row.last_at_us for row in rows), default=0)
            whole_s = max((row.begin_s + row.length_s for row in rows if are_whole), default=0)
            database.execute(_ADD_SUMS, (sum(row.readings for row in rows), len(rows), latest_us, whole_s))
        with self._keeping:
            self._added += 1
            for minute_s in {row.begin_s // MINUTE_S * MINUTE_S for row in rows}:
                self._homes.pop(minute_s, None)

    def forget(self) -> int:
        """Delete what is older than `keep_s` before the latest reading; return that bound."""
        with self._writing, self._writer as database:
            (latest_us,) = database.execute("select latest_us from sums").fetchone()
            bound_s = latest_us // 1_000_000 - self.keep_s
            database.execute("delete from minutes where minute_s < ?", (bound_s - MINUTE_S,))
            database.execute("delete from windows where begin_s < ?", (bound_s - MINUTE_S,))
        with self._keeping:
            for minute_s in [minute_s for minute_s in self._homes if minute_s < bound_s]:
                del self._homes[minute_s]
        return int(bound_s)

    def ask(self, question: str, values: Iterable[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the answer to a query. Any thread."""
        with self._reading, closing(self._reader.execute(question, tuple(values))) as answer:
            return answer.fetchall()

    def minutes(self) -> list[int]:
        """Return the minutes of which there is anything, in order."""
        # Not from the table of minutes itself, which has millions of rows.
        found = self.ask("select distinct begin_s / 60 * 60 from windows order by 1")
        return [minute_s for (minute_s,) in found]

    def homes_lately(self) -> int:
        """Return how many homes sent readings in the last `LATELY_S`; counting takes a tenth of the time."""
        next_s, homes = self._lately
        begin_s = time.monotonic()
        if begin_s > next_s:
            [(homes,)] = self.ask(_LATELY, (LATELY_S,))
            took_s = time.monotonic() - begin_s
            self._lately = (begin_s + 10 * took_s, homes)
        return homes

    def homes_in(self, minute_s: int, *, is_over: bool) -> int:
        """Return how many homes sent readings in a minute.

        Once the minute is over the answer is kept, until more of it comes: from a blob that was late, or at
        the page's start, when it reads what is there in any order.
        """
        with self._keeping:
            known, added = self._homes.get(minute_s), self._added
        if known is None:
            known = self.ask("select count(distinct home) from minutes where minute_s = ?", (minute_s,))[0][0]
            with self._keeping:
                if is_over and added == self._added:
                    self._homes[minute_s] = known
        return known

    def close(self) -> None:
        """Close both connections and remove the file."""
        with self._writing, self._reading:
            self._writer.close()
            self._reader.close()
        self._folder.cleanup()

    def _number(self, kind: tuple[str, str], since_s: int) -> int:
        """Return a kind's number in the table, and keep since when there is one."""
        number, known_since_s = self._kinds.get(kind, (len(self._kinds) + 1, since_s + 1))
        if since_s < known_since_s:  # blobs, and rows in them, come in any order
            self._writer.execute("insert or replace into kinds values (?, ?, ?, ?)", (number, *kind, since_s))
            self._kinds[kind] = (number, since_s)
        return number


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


def _connect(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, check_same_thread=False)
    database.execute("pragma journal_mode = wal")
    # The blobs are the truth: after a crash the file is not even looked at again.
    database.execute("pragma synchronous = off")
    return database


def _minute(row: Row, kind: int) -> tuple[Any, ...]:
    minute_s = row.begin_s // MINUTE_S * MINUTE_S
    return (minute_s, home_number(row.home), kind, *row[5:])


def _windows(rows: Sequence[Row], kinds: Sequence[int]) -> list[tuple[int, ...]]:
    found: dict[tuple[int, int, int], tuple[int, int]] = {}
    for row, kind in zip(rows, kinds, strict=True):
        readings, alarms = found.get((row.begin_s, row.length_s, kind), (0, 0))
        found[row.begin_s, row.length_s, kind] = (readings + row.readings, alarms + row.alarms)
    return [(*key, *counts) for key, counts in found.items()]
