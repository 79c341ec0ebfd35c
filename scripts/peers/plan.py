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
    """One work with its numbers."""

    name: str
    work: str
    topic: Filled | Live
    options: dict[str, Any] = field(default_factory=dict)
    kinds: tuple[str, ...] = ANY
    # "records_per_s", or "p99_ms", of which less is better.
    figure: str = "records_per_s"
    warm_s: float = 1.0
    # At least so many seconds, however short the others are.
    seconds_min: float = 0.0
    quick: bool = False

    @property
    def workload(self) -> str:
        """Return the first word of its name, as W2."""
        return self.name.split()[0]

    @property
    def less_is_better(self) -> bool:
        """Whether the figure is a latency."""
        return self.figure.endswith("_ms")

    def measurements(self, sides: Iterable[Side]) -> list[tuple[Side, Mode]]:
        """Return who is measured, in turn."""
        return [
            (side, mode) for side in sides for mode in side.modes_for(self.work) if mode.kind in self.kinds
        ]


def rows(*, quick: bool) -> list[Row]:
    """Return all rows, or those of the short form."""
    main = Filled("main", QUICK_RECORDS if quick else FILLED_RECORDS, 10_000)
    found = [
        Row("W0 no-op", "noop", main, {"workers": 16}, quick=True),
        Row("W0 JSON", "json", main, {"workers": 16}),
        *(_w1(keys, main) for keys in (1, 10, 100, 1_000, 10_000)),
        *(_w2(sleep_ms, kind, main) for kind in ("threads", "tasks") for sleep_ms in (0.1, 1, 10)),
        *_w4(),
        *(_w5(share, main) for share in (0.0, 0.001, 0.02)),
        *(_w9(per_s) for per_s in (1_000, 10_000)),
        Row("W15 batches of 500, no-op", "batch", main, {"batch_records": 500}, quick=True),
        Row("W15 batches of 500, JSON", "batch", main, {"batch_records": 500, "decode": "json"}),
        Row("W17 typed JSON", "typed", main, {"workers": 16}),
        Row("W17 one output each", "output", main, {"workers": 16}, quick=True),
        Row("W17 one output each, exactly once", "exactly_once", main, {"workers": 16}, warm_s=2.0),
    ]
    return [row for row in found if row.quick or not quick]


def chosen(all_rows: list[Row], only: list[str] | None) -> list[Row]:
    """Return the rows of these workloads, or those whose name begins with such a text."""
    if not only:
        return all_rows
    return [row for row in all_rows if any(text in (row.workload, row.name) for text in only)]


def _w1(keys: int, main: Filled) -> Row:
    topic = main if keys == main.keys else Filled(f"keys{keys}", min(400_000, 4_000 * keys + 8_000), keys)
    options = {"sleep_ms": [0.0, 5.0], "workers": 100}
    return Row(f"W1 0–5 ms, 100 workers, {_keys(keys)}", "sleep", topic, options, quick=keys == 100)


def _w2(sleep_ms: float, kind: str, main: Filled) -> Row:
    workers = 1_000 if kind == "tasks" else 100
    name = f"W2 {sleep_ms:g} ms, {workers:,} {kind}"
    kinds = ("tasks",) if kind == "tasks" else ("threads", "processes")
    return Row(
        name, "sleep", main, {"sleep_ms": sleep_ms, "workers": workers}, kinds=kinds, quick=sleep_ms == 1
    )


def _w4() -> list[Row]:
    options = {"sleep_ms": 1.0, "hot_ms": 20.0, "workers": 100}
    hot = (("without a hot key", 0), ("next to a hot key at 80 %", 40), ("next to a hot key at 20 ×", 1_000))
    return [
        Row(
            f"W4 p99 of 1 ms records {name}",
            "hot",
            Live(2_000, hot_per_s),
            options,
            figure="p99_ms",
            warm_s=2.0,
        )
        for name, hot_per_s in hot
    ]


# The plan's 30 s, scaled: a window begins once as many wait as ever will.
RETRY_S = 2.0


def _w5(share: float, main: Filled) -> Row:
    topic = Filled(f"poison{share:g}", 100_000, main.keys, share)
    options = {"sleep_ms": 20.0, "workers": 100, "retry_s": RETRY_S}
    return Row(f"W5 20 ms, {share:.1%} fail once", "poison", topic, options, warm_s=RETRY_S + 1)


def _w9(per_s: int) -> Row:
    return Row(
        f"W9 p99 at {per_s:,}/s",
        "latency",
        Live(per_s),
        {"workers": 16},
        figure="p99_ms",
        warm_s=2.0,
        quick=per_s == 10_000,
    )


def _keys(number: int) -> str:
    return f"{number:,} key{'s' * (number > 1)}"
