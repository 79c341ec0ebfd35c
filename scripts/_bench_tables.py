"""Writes what the benchmark measured: a table in Markdown and on the terminal, and JSON."""

from __future__ import annotations

import json
import statistics
from typing import TYPE_CHECKING, Any

from _bench_cpu import OTHERS_SHARE_MAX
from _bench_ratios import cpu_s, figures, median, others, ratios
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from pathlib import Path

    from _bench_row import Row

HEAD = (
    "work",
    "ehkafka",
    "limit",
    "ratio (least–most)",
    "other",
    "goal",
    "CPU s per million: ehkafka, limit",
    "CPU that others took",
    "memory",
    "remarks",
)
# On the terminal, where there is less room.
SHOWN = ("work", "ehkafka", "limit", "ratio (least–most)", "goal", HEAD[7], HEAD[8], "remarks")


def write_report(measured: list[tuple[Row, dict[str, Any]]], facts: dict[str, Any], folder: Path) -> None:
    """Print the table and write bench.md, bench.json and bench.svg into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [dict(zip(HEAD, _cells(row, sides), strict=True)) for row, sides in measured]
    shown = ", ".join(f"{name} {value}" for name, value in facts.items())
    markdown = [f"| {' | '.join(HEAD)} |", "|---" * len(HEAD) + "|"]
    markdown += [f"| {' | '.join(cells.values())} |" for cells in lines]
    (folder / "bench.md").write_text("\n".join([*markdown, "", shown, "", OTHERS, ""]))
    everything = {"facts": facts, "rows": {row.work: sides for row, sides in measured}}
    (folder / "bench.json").write_text(json.dumps(everything, indent=1))
    # Needs matplotlib, which the tests of the rows do without; the figures are written by then.
    from _bench_plot import plot  # noqa: PLC0415

    plot(measured, folder / "bench.svg", shown)
    table = Table(*SHOWN, title="ehkafka compared with bare programs", caption=f"{shown}\n{OTHERS}")
    for cells in lines:
        table.add_row(*(cells[name] for name in SHOWN))
    console = Console()
    Console(width=None if console.is_terminal else 220).print(table)
    Console(stderr=True).print(f"Written: {folder / 'bench.md'}, bench.json, bench.svg")


OTHERS = (
    "CPU that others took: of all cores, by processes that do not belong to the benchmark and by a virtual "
    "machine's host, while a side was measured; the median, and in brackets the most. ⚠ says how many "
    f"measurements had more than {OTHERS_SHARE_MAX:.0%}, the last repetition included."
)


def _cells(row: Row, sides: dict[str, list[dict[str, Any]]]) -> tuple[str, ...]:
    ours, limit = map(statistics.median, figures(row, sides))
    memory = max(one["rss_mib"] for one in sides["ours"])
    return (
        row.work,
        _number(ours),
        _number(limit),
        _spread(ratios(row, sides)),
        f"{row.other_name} {_spread(ratios(row, sides, 'other'))}" if row.other is not None else "",
        row.goal,
        ", ".join("unknown" if one is None else _number(one) for one in cpu_s(row, sides)),
        _others(others(sides)),
        f"{memory} MiB",
        _remarks(row, sides),
    )


def _others(each: list[float]) -> str:
    if not each:
        return "unknown"
    disturbed = sum(share > OTHERS_SHARE_MAX for share in each)
    marked = f" ⚠ {disturbed} of {len(each)}" if disturbed else ""
    return f"{statistics.median(each):.0%} ({max(each):.0%}){marked}"


def _remarks(row: Row, sides: dict[str, list[dict[str, Any]]]) -> str:
    said = []
    for name, template in row.remarks:
        ours, limit = (median(sides.get(side, []), name) for side in ("ours", "limit"))
        texts = [(side, one) for side, one in (("", ours), ("limit ", limit)) if one is not None]
        said += [side + template.format(one) for side, one in texts]
    if any(one.get("ran_dry") for each in sides.values() for one in each):
        said.append("the topic ran dry: the bytes are too few")
    return "; ".join(said)


def _spread(each: list[float]) -> str:
    return f"{statistics.median(each):.2f} ({min(each):.2f}–{max(each):.2f})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
