"""Measures all rows round by round, the sides in turn, once more where others disturbed one."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from _bench_cpu import OTHERS_SHARE_MAX
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from peers.measure import Setting, measure
from peers.process import SideError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from peers.catalogue import Mode, Side
    from peers.plan import Row
    from peers.raw import Writer

# What a measurement takes beyond its warm-up and its window: a process, a group, their end.
AROUND_S = 1.4
FAILURES_MAX = 2


def in_turn(rows: list[Row], sides: list[Side], rounds: int) -> list[tuple[int, Row, Side, Mode]]:
    """Return all measurements in order; in each round another side is the first one."""
    found = []
    for number in range(rounds):
        for row in rows:
            each = row.measurements(sides)
            start = number % len(each) if each else 0
            found += [(number, row, *one) for one in each[start:] + each[:start]]
    return found


def minutes(turns: list[tuple[int, Row, Side, Mode]], seconds: float) -> float:
    """Return about how long they take."""
    return sum(seconds + max(row.warm_s, mode.warm_s) + AROUND_S for _, row, _, mode in turns) / 60


def run_all(
    setting: Setting,
    turns: list[tuple[int, Row, Side, Mode]],
    writer: Writer,
    console: Console,
    *,
    measure_once: Callable[..., dict[str, Any]] = measure,
) -> list[str]:
    """Measure and write each measurement down; return a sentence for each that failed.

    A side that failed in a row is tried there in one more round, for it may have been bad luck; if it fails
    again, in no later round.
    """
    failures: dict[tuple[str, str], list[str]] = defaultdict(list)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console) as progress:
        task = progress.add_task("starting", total=len(turns))
        for place, (number, row, side, mode) in enumerate(turns):
            what = f"round {number + 1}: {row.name}, {mode.title}"
            progress.update(task, description=what)
            if not console.is_terminal:  # there a bar is drawn only at the end
                console.print(f"{place + 1} of {len(turns)}, {what}", highlight=False, soft_wrap=True)
            about = {"row": row.name, "side": side.name, "mode": mode.title, "round": number}
            if len(failures[row.name, mode.title]) < FAILURES_MAX:
                try:
                    figures = _quietest(setting, row, side, mode, console, measure_once)
                except SideError as error:
                    failures[row.name, mode.title].append(str(error))
                    console.print(f"[red]failed:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
                    figures = {"failed": str(error).splitlines()[0]}
                writer.add({**about, **figures})
            progress.advance(task)
    return [sentence for each in failures.values() for sentence in each]


def _quietest(
    setting: Setting,
    row: Row,
    side: Side,
    mode: Mode,
    console: Console,
    measure_once: Callable[..., dict[str, Any]],
) -> dict[str, Any]:
    """Measure, and once more where others took much of the CPU; the quieter one counts."""
    first = measure_once(setting, row, side, mode)
    if _disturbed(first) <= OTHERS_SHARE_MAX:
        return first
    console.print(f"Once more: others took {_disturbed(first):.0%} of the CPU.", highlight=False)
    return min(first, measure_once(setting, row, side, mode), key=_disturbed)


def _disturbed(figures: dict[str, Any]) -> float:
    return float(figures.get("others_share", 0.0))
