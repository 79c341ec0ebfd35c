"""Writes what the soak saw: a table of the kinds of workers, and how throughput, lag and memory went.

Runs inside the environment; see `scripts/faults` and `tests/faults/test_row_27_soak.py`.
"""

from __future__ import annotations

import re
from html import escape
from io import StringIO
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from matplotlib import rc_context
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from _long_run import LongRun

HEAD = (
    "workers", "records", "kills", "stops", "dead letters", "lost", "unseen", "order", "early commits",
    "commits of former owners", "repeated %", "unexplained", "memory at the end, MB",
    "slope after warm-up, MB/h",
)  # fmt: skip
MEASURES = ("lost", "unseen", "order_violations", "premature_commits", "stale_commits")
COLOURS = {"threads": "#3b6ea5", "asyncio": "#c2703d", "batches": "#4f8a4c", "processes": "#8a4f7d"}
# A line of the picture has so many points at most: two hours have 7,200 samples.
POINTS_MAX = 240


def write_soak(found: dict[str, Any], long_run: LongRun) -> None:
    """Print the table; write soak.json and soak.svg where `scripts/survives` looks for them."""
    lines = [_cells(crew) for crew in found["crews"]]
    away_s = found["broker_away_s"][1] - found["broker_away_s"][0]
    shown = (
        f"Each kind of workers gets {found['rate']:g} records/s, and the records of one key in twenty always "
        f"fail. Every {found['period_s']:g} s, a member of each kind joins, leaves or is killed. The broker "
        f"restarts once and is down for {away_s:.0f} s."
    )
    crews = found["crews"]
    counts = {
        "minutes": round(found["minutes"]),
        "records": sum(crew["produced"] for crew in crews),
        "kills": sum(crew["kills"] for crew in crews),
        "dead letters": sum(crew["letters"] for crew in crews),
    }
    path = long_run.write(counts, HEAD, lines, shown, picture="soak.svg")
    path.with_suffix(".svg").write_text(with_words(_plot(found), "The soak, minute by minute", shown))
    table = Table(*HEAD, title="The soak", caption=shown)
    for cells in lines:
        table.add_row(*map(str, cells))
    Console(width=200).print(table)


def with_words(drawn: str, title: str, described: str) -> str:
    """Return the SVG with what a screen reader says of it in place of Matplotlib's metadata."""
    drawn = re.sub(r" <metadata>.*?</metadata>\n", "", drawn, count=1, flags=re.DOTALL)
    words = f" <title>{escape(title)}</title>\n <desc>{escape(described)}</desc>\n"
    return drawn.replace(" <defs>", f"{words} <defs>", 1)


def _cells(crew: dict[str, Any]) -> tuple[object, ...]:
    verdict = crew["verdict"]
    slope = crew["slope_mb_per_hour"]
    return (
        crew["kind"],
        crew["produced"],
        crew["kills"],
        crew["leaves"],
        crew["letters"],
        *(verdict[measure] for measure in MEASURES),
        f"{100 * verdict['duplicate_share']:.2f}",
        verdict["duplicates_unexplained"],
        f"{crew['memory'][-1][1]:.0f}",
        "–" if slope is None else f"{slope:+.1f}",
    )


def _plot(found: dict[str, Any]) -> str:
    # Words stay words, so that the picture stays small.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "soak"}):
        figure = Figure(figsize=(9, 8), layout="constrained")
        throughput, lag, letters, memory = figure.subplots(4, 1, sharex=True)
        for crew in found["crews"]:
            style = {"color": COLOURS[crew["kind"]], "label": crew["kind"], "linewidth": 1}
            few = _thinned(crew["progress"])
            times_s, committed, produced, written = zip(*few, strict=True)
            minutes = [at_s / 60 for at_s in times_s]
            throughput.plot(minutes[1:], _rates(few), **style)
            lag.plot(minutes, [p - c for p, c in zip(produced, committed, strict=True)], **style)
            letters.plot(minutes, written, **style)
            memory.plot(
                *zip(*[(at_s / 60, mb) for at_s, mb in _thinned(crew["memory"])], strict=True), **style
            )
            killed = [
                at_s / 60 for at_s, who, action in found["steps"] if (who, action) == (crew["kind"], "kill")
            ]
            lag.plot(killed, [0] * len(killed), "x", color=style["color"], markersize=4, clip_on=False)
        for axes, label in (
            (throughput, "committed records/s"),
            (lag, "not committed yet (× a kill)"),
            (letters, "dead letters so far"),
            (memory, "memory of one member, MB"),
        ):
            axes.set_ylabel(label, fontsize=8)
            axes.axvspan(*(at_s / 60 for at_s in found["broker_away_s"]), color="#dddddd")
            axes.grid(color="#eeeeee")
            axes.set_ylim(bottom=0)
        throughput.legend(ncols=len(COLOURS), fontsize=8)
        memory.set_xlabel("minutes (grey: the broker is away)")
        drawn = StringIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None})
        return drawn.getvalue()


def _thinned(samples: list[Any]) -> list[Any]:
    return samples[:: len(samples) // POINTS_MAX + 1]


def _rates(progress: list[Any]) -> list[float]:
    """Return committed records per second between each two samples."""
    return [(later[1] - before[1]) / (later[0] - before[0]) for before, later in pairwise(progress)]
