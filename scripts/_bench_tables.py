"""Writes what the benchmark measured: a table in Markdown and on the terminal, JSON, and a plot."""

from __future__ import annotations

import json
import statistics
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from pathlib import Path

    from _bench_row import Row

Measured = "list[tuple[Row, dict[str, list[dict[str, Any]]]]]"
HEAD = ("work", "ehkafka", "limit", "ratio (least–most)", "with plain lanes", "goal", "memory")


def write_report(measured: list[tuple[Row, dict[str, Any]]], facts: dict[str, Any], folder: Path) -> None:
    """Print the table and write bench.md, bench.json and bench.svg into `folder`."""
    folder.mkdir(exist_ok=True)
    lines = [_cells(row, sides) for row, sides in measured]
    shown = ", ".join(f"{name} {value}" for name, value in facts.items())
    markdown = [f"| {' | '.join(HEAD)} |", "|---" * len(HEAD) + "|"]
    markdown += [f"| {' | '.join(cells)} |" for cells in lines]
    (folder / "bench.md").write_text("\n".join(markdown) + f"\n\n{shown}\n")
    everything = {"facts": facts, "rows": {row.work: sides for row, sides in measured}}
    (folder / "bench.json").write_text(json.dumps(everything, indent=1))
    _plot(measured, folder / "bench.svg", shown)
    table = Table(*HEAD, title="ehkafka beside the bare loop", caption=shown)
    for cells in lines:
        table.add_row(*cells)
    Console().print(table)
    Console(stderr=True).print(f"Written: {folder / 'bench.md'}, bench.json, bench.svg")


def ratios(row: Row, sides: dict[str, list[dict[str, Any]]], name: str = "ours") -> list[float]:
    """Return that side ÷ limit of each round."""
    return [ours / limit for ours, limit in zip(*_figures(row, sides, name), strict=True)]


def _figures(
    row: Row, sides: dict[str, list[dict[str, Any]]], name: str = "ours"
) -> tuple[list[float], list[float]]:
    """Return that side and the limit, round by round."""
    limits = sides["ours" if row.limit is None else "limit"]
    return [one[row.figure] for one in sides[name]], [one[row.limit_figure or row.figure] for one in limits]


def _cells(row: Row, sides: dict[str, list[dict[str, Any]]]) -> tuple[str, ...]:
    ours, limit = map(statistics.median, _figures(row, sides))
    each = ratios(row, sides)
    memory = max(one["rss_mib"] for one in sides["ours"])
    return (
        row.work,
        _number(ours),
        _number(limit),
        _spread(each),
        _spread(ratios(row, sides, "lanes")) if row.express else "",
        row.goal,
        f"{memory} MiB",
    )


def _spread(each: list[float]) -> str:
    return f"{statistics.median(each):.2f} ({min(each):.2f}–{max(each):.2f})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _plot(measured: list[tuple[Row, dict[str, Any]]], path: Path, shown: str) -> None:
    figure = Figure(figsize=(9, 1.2 + 0.5 * len(measured)), layout="constrained")
    axes = figure.subplots()
    names = [row.work for row, _ in measured][::-1]
    each = [ratios(row, sides) for row, sides in measured][::-1]
    middles = [statistics.median(values) for values in each]
    spread = [
        [middle - min(values) for middle, values in zip(middles, each, strict=True)],
        [max(values) - middle for middle, values in zip(middles, each, strict=True)],
    ]
    axes.barh(names, middles, xerr=spread, color="#3b6ea5", ecolor="#222222", capsize=3)
    axes.axvline(1.0, color="#888888", linewidth=1, linestyle="--")
    axes.set_xlabel("ehkafka ÷ limit (median, least–most); for latencies less is better")
    axes.set_title(shown, fontsize=7)
    figure.savefig(path)
