"""`ehkafka lag`: how far a group is behind, once or again and again.

On the main thread. Asks the broker only for commits and the logs' ends, which works for a group that nobody
lists and for one without members.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from rich.live import Live
from rich.text import Text

from ehkafka.checks import printable
from ehkafka.cli.exits import LAGGING
from ehkafka.cli.offsets.output import put_json, put_text
from ehkafka.cli.offsets.text import report_as_dict, report_as_text
from ehkafka.cli.unread import PipedConsole
from ehkafka.offsets import LagReport

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.offsets import GroupOffsets


def lag(group: GroupOffsets, *, fail_over: int | None, as_json: bool) -> int:
    """Print the lag once and return the exit code."""
    with group:
        report = LagReport.of(group.views())
    _put(group, report, as_json=as_json)
    return LAGGING if fail_over is not None and report.fails(fail_over) else 0


def watch_lag(
    group: GroupOffsets,
    *,
    fail_over: int | None,
    as_json: bool,
    every_s: float,
) -> int:
    """Show the lag until Ctrl-C, or until it is above `fail_over`: redrawn on a terminal, else repeated."""
    console = PipedConsole(highlight=False, markup=False)
    with suppress(KeyboardInterrupt), group:
        if as_json or not console.is_terminal:
            return _repeat(
                group, fail_over, every_s, lambda report: _put(group, report, as_json=as_json, is_one=False)
            )
        with Live(console=console, auto_refresh=False, screen=False) as live:

            def redraw(report: LagReport) -> bool:
                now = time.strftime("%H:%M:%S")
                text = f"{printable(group.where)}  {now}\n\n{report_as_text(report)}"
                live.update(Text(text, no_wrap=True, overflow="ellipsis"), refresh=True)
                return True

            return _repeat(group, fail_over, every_s, redraw)
    return 0


def _repeat(
    group: GroupOffsets,
    fail_over: int | None,
    every_s: float,
    put: Callable[[LagReport], bool],
) -> int:
    while True:
        report = LagReport.of(group.views())
        is_read = put(report)
        if fail_over is not None and report.fails(fail_over):
            return LAGGING
        if fail_over is None and not is_read:
            return 0  # neither its output nor its exit code is for anybody
        _pause(every_s)


def _pause(seconds: float) -> None:
    time.sleep(seconds)


def _put(group: GroupOffsets, report: LagReport, *, as_json: bool, is_one: bool = True) -> bool:
    """Print a look; one of several takes one line of JSON, so that a program reads line by line."""
    if as_json:
        place = {"endpoint": group.target.endpoint.name, "topic": group.topic, "group": group.group}
        return put_json({**place, **report_as_dict(report)}, on_one_line=not is_one)
    return put_text(f"{group.where}\n\n{report_as_text(report)}")
