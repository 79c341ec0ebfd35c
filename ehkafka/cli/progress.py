"""How far a command has come: a bar with the rate and the time left on a terminal, lines elsewhere.

To stderr; on the thread of the command, the bar on one of rich's as well.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from ehkafka.cli.output import notice
from ehkafka.cli.run_view import clock_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LINE_S: Final = 10.0
"""Seconds between two lines, as a run until caught up has them."""


@contextmanager
def progress_of(title: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
    """Yield what takes how many are done."""
    console, began_s = Console(stderr=True), time.monotonic()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task, line_s = bar.add_task(title, total=total, rate=""), began_s

        def report(done: int) -> None:
            nonlocal line_s
            now_s = time.monotonic()
            per_s = done / max(now_s - began_s, 1e-3)
            rate = f"{per_s:,.0f} {unit}/s, {clock_of((total - done) / per_s if done else None)} left"
            bar.update(task, completed=done, rate=rate)
            if not console.is_terminal and now_s - line_s > LINE_S:
                line_s = now_s
                notice(f"{title}: {done} of {total}, {rate}")

        yield report
