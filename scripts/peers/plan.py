"""The plan: which works are measured, on which topic, with which options, for how long.

A row is one table of the page. It runs every mode that does its work and has one of its kinds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from peers.catalogue import Mode, Side

PARTITIONS = 8
# Enough for a window of some seconds at two million records a second.
FILLED_RECORDS, QUICK_RECORDS = 8_000_000, 6_000_000
ANY = ("threads", "tasks", "processes")


@dataclass(frozen=True)
class Filled:
    """A topic that is filled before."""

    name: str
    records: int
    keys: int
    # Of 1: how many of its records fail.
    poison: float = 0.0


@dataclass(frozen=True)
class Live:
    """A new topic for each measurement, into which a producer sends meanwhile."""

    per_s: int
    hot_per_s: int = 0


@dataclass(frozen=True)
class Row:
    """One work with its numbers: a column of a table."""

    # "W2 100 threads", and "1 ms".
    table: str
    column: str
    work: str
    topic: Filled | Live
    options: dict[str, Any] = field(default_factory=dict)
    kinds: tuple[str, ...] = ANY
    # "records_per_s", or "p99_ms", of which less is better.
    figure: str = "records_per_s"
    warm_s: float = 1.0
    quick: bool = False

    @property
    def name(self) -> str:
        """Return the table and the column."""
        return f"{self.table}, {self.column}"

    @property
    def workload(self) -> str:
        """Return the first word of its name, as W2."""
        return self.table.split()[0]

    @property
    def less_is_better(self) -> bool:
        """Whether the figure is a latency."""
        return self.figure.endswith("_ms")

    def measurements(self, sides: Iterable[Side]) -> list[tuple[Side, Mode]]:
        """Return who is measured, in turn."""
        return [(side, mode) for side in sides for mode in side.modes_for(self.work) if self._is_for(mode)]

    def _is_for(self, mode: Mode) -> bool:
        return mode.kind in self.kinds and (not mode.workloads or self.workload in mode.workloads)


def rows(*, quick: bool) -> list[Row]:
    """Return all rows, or those of the short form."""
    main = Filled("main", QUICK_RECORDS if quick else FILLED_RECORDS, 10_000)
    each, batch = {"workers": 16}, {"batch_records": 500}
    found = [
        Row("W0 quick handlers", "no-op", "noop", main, each, quick=True),
        Row("W0 quick handlers", "JSON", "json", main, each),
        *(_w1(keys, main) for keys in (1, 100, 10_000)),
        *(_w2(sleep_ms, kind, main) for kind in ("threads", "tasks") for sleep_ms in (0.1, 1, 10)),
        *(_w4(column, hot_per_s) for column, hot_per_s in HOT.items()),
        *(_w5(share, main) for share in (0.0, 0.001, 0.02)),
        *(_w9(per_s) for per_s in (1_000, 10_000)),
        Row("W15 batches of 500", "no-op", "batch", main, batch, quick=True),
        Row("W15 batches of 500", "JSON", "batch", main, {**batch, "decode": "json"}),
        Row("W17 types and outputs", "typed JSON", "typed", main, each),
        Row("W17 types and outputs", "one output each", "output", main, each, quick=True),
        Row("W17 types and outputs", "exactly once", "exactly_once", main, each, warm_s=2.0),
    ]
    return [row for row in found if row.quick or not quick]


def chosen(all_rows: list[Row], only: list[str] | None) -> list[Row]:
    """Return the rows of these workloads, or those whose name is such a text."""
    if not only:
        return all_rows
    return [row for row in all_rows if any(text in (row.workload, row.name) for text in only)]


def _w1(keys: int, main: Filled) -> Row:
    topic = main if keys == main.keys else Filled(f"keys{keys}", 400_000 if keys >= 100 else 60_000, keys)
    options = {"sleep_ms": [0.0, 5.0], "workers": 100}
    column = f"{keys:,} key{'s' * (keys > 1)}"
    return Row("W1 sleep of 0–5 ms, 100 workers", column, "sleep", topic, options, quick=keys == 100)


def _w2(sleep_ms: float, kind: str, main: Filled) -> Row:
    workers = 1_000 if kind == "tasks" else 100
    kinds = ("tasks",) if kind == "tasks" else ("threads", "processes")
    options = {"sleep_ms": sleep_ms, "workers": workers}
    table, column = f"W2 sleep on {workers:,} {kind}", f"{sleep_ms:g} ms"
    return Row(table, column, "sleep", main, options, kinds, quick=sleep_ms == 1)


HOT = {"no hot key": 0, "hot key at 80 %": 40, "hot key at 20 ×": 1_000}


def _w4(column: str, hot_per_s: int) -> Row:
    options = {"sleep_ms": 1.0, "hot_ms": 20.0, "workers": 100}
    live = Live(2_000, hot_per_s)
    return Row("W4 p99 (ms) of the other keys", column, "hot", live, options, figure="p99_ms", warm_s=2.0)


# The plan's 30 s, scaled: a window begins once as many wait as ever will.
RETRY_S = 2.0


def _w5(share: float, main: Filled) -> Row:
    topic = Filled(f"poison{share:g}", 100_000, main.keys, share)
    options = {"sleep_ms": 20.0, "workers": 100, "retry_s": RETRY_S}
    column = f"{share:.1%} fail" if share else "none fails"
    return Row("W5 failing records, 20 ms", column, "poison", topic, options, warm_s=RETRY_S + 1)


def _w9(per_s: int) -> Row:
    live = Live(per_s)
    return Row(
        "W9 latency p99 (ms)", f"{per_s:,}/s", "latency", live, {"workers": 16},
        figure="p99_ms", warm_s=2.0, quick=per_s == 10_000,
    )  # fmt: skip
