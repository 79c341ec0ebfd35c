"""How far a command has come: a bar with the rate and the time left on a terminal, lines elsewhere.

To stderr; on the thread of the command, the bar on one of rich's as well.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn
from rich.text import Text

from ehkafka.cli.output import notice
from ehkafka.cli.run_view import clock_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.progress import Task

LINE_S: Final = 10.0
"""Seconds between two lines, as a run until caught up has them."""


class RateColumn(ProgressColumn):
    """The rate and the time left, which are others with each second in which nothing is done."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: Task) -> Text:
        """Return them as they are now."""
        return Text(rate_of(task.completed, task.total, task.elapsed or 0.0, self._unit))


@contextmanager
def progress_of(title: str, total: int | None, unit: str) -> Iterator[Callable[[int], None]]:
    """Yield what takes how many are done; without a total, the bar tells only that something is."""
    console, began_s = Console(stderr=True), time.monotonic()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), RateColumn(unit))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task, line_s = bar.add_task(title, total=total), began_s

        def report(done: int) -> None:
            nonlocal line_s
            now_s = time.monotonic()
            bar.update(task, completed=done)
            if not console.is_terminal and now_s - line_s > LINE_S:
                line_s = now_s
                of_all = "" if total is None else f" of {total}"
                notice(f"{title}: {done}{of_all}, {rate_of(done, total, now_s - began_s, unit)}")

        yield report


def rate_of(done: float, total: float | None, took_s: float, unit: str) -> str:
    """Return how many were done in a second, and how long the rest takes at that rate, if it is known."""
    rate = f"{done / max(took_s, 1e-3):,.0f} {unit}/s"
    if total is None:
        return rate
    left_s = (total - done) * took_s / done if done else None
    return f"{rate}, {clock_of(left_s)} left"
