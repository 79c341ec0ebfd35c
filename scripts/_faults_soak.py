"""Writes what the soak saw: a table of the kinds of workers, and how throughput, lag and memory went.

Runs inside the environment; see `scripts/faults` and `tests/faults/test_row_27_soak.py`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from pathlib import Path

HEAD = (
    "workers", "records", "kills", "stops", "lost", "unseen", "order", "premature", "stale",
    "repeated", "unexplained", "memory at the end", "slope after warm-up",
)  # fmt: skip
MEASURES = ("lost", "unseen", "order_violations", "premature_commits", "stale_commits")
COLOURS = {"threads": "#3b6ea5", "asyncio": "#c2703d", "batches": "#4f8a4c", "processes": "#8a4f7d"}
# So many samples, one a second, make one point of the throughput.
SMOOTHED = 10


def write_soak(found: dict[str, Any], folder: Path) -> None:
    """Print the table; write soak.md and soak.svg into `folder`, beside the soak.json that this is."""
    lines = [_cells(crew) for crew in found["crews"]]
    shown = (
        f"{found['minutes']:g} minutes, {found['rate']:g} records/s for each kind, somebody comes, leaves "
        f"or is killed every {found['period_s']:g} s, the broker away for "
        f"{found['broker_away_s'][1] - found['broker_away_s'][0]:.0f} s"
    )
    markdown = [f"| {' | '.join(HEAD)} |", "|---" * len(HEAD) + "|"]
    markdown += [f"| {' | '.join(cells)} |" for cells in lines]
    (folder / "soak.md").write_text("\n".join(markdown) + f"\n\n{shown}\n")
    _plot(found, folder / "soak.svg", shown)
    table = Table(*HEAD, title="The soak", caption=shown)
    for cells in lines:
        table.add_row(*cells)
    Console(width=200).print(table)
    Console(stderr=True).print(f"Written: {folder / 'soak.md'}, soak.json, soak.svg")


def _cells(crew: dict[str, Any]) -> tuple[str, ...]:
    verdict = crew["verdict"]
    slope = crew["slope_mb_per_hour"]
    return (
        crew["kind"],
        f"{crew['produced']:,}",
        str(crew["kills"]),
        str(crew["leaves"]),
        *(str(verdict[measure]) for measure in MEASURES),
        f"{verdict['duplicates']} ({100 * verdict['duplicate_share']:.2f} %)",
        str(verdict["duplicates_unexplained"]),
        f"{crew['memory'][-1][1]:.0f} MB",
        "–" if slope is None else f"{slope:+.1f} MB/h",
    )


def _plot(found: dict[str, Any], path: Path, shown: str) -> None:
    figure = Figure(figsize=(11, 8), layout="constrained")
    throughput, lag, memory = figure.subplots(3, 1, sharex=True)
    for crew in found["crews"]:
        style = {"color": COLOURS[crew["kind"]], "label": crew["kind"], "linewidth": 1}
        times_s, committed, produced = zip(*crew["progress"], strict=True)
        throughput.plot(*_rate(crew["progress"]), **style)
        lag.plot(times_s, [p - c for p, c in zip(produced, committed, strict=True)], **style)
        memory.plot(*zip(*crew["memory"], strict=True), **style)
        killed_s = [at_s for at_s, who, action in found["steps"] if (who, action) == (crew["kind"], "kill")]
        lag.plot(killed_s, [0] * len(killed_s), "x", color=style["color"], markersize=5)
    for axes, label in (
        (throughput, "committed records/s"),
        (lag, "lag in records (× a kill)"),
        (memory, "elder's memory in MB"),
    ):
        axes.set_ylabel(label)
        axes.axvspan(*found["broker_away_s"], color="#dddddd")
        axes.grid(color="#eeeeee")
    throughput.legend(ncols=len(COLOURS), fontsize=8)
    memory.set_xlabel("seconds (grey: the broker is away)")
    figure.suptitle(shown, fontsize=8)
    figure.savefig(path)


def _rate(progress: list[tuple[float, int, int]]) -> tuple[list[float], list[float]]:
    """Return times and committed records per second between every so many samples."""
    points = list(pairwise(progress[::SMOOTHED]))
    rates = [(later[1] - before[1]) / (later[0] - before[0]) for before, later in points]
    return [later[0] for _, later in points], rates
