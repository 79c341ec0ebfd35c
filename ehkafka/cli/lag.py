"""`ehkafka lag`: how far a group is behind, once or again and again.

On the main thread. Asks the broker only for commits, the logs' ends and single records, which works for a
group that nobody lists and for one without members.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from rich.live import Live
from rich.text import Text

from ehkafka.checks import printable
from ehkafka.cli.exits import LAGGING
from ehkafka.cli.lag_text import lag_as_dict, lag_as_text
from ehkafka.cli.offsets.output import put_json, put_text
from ehkafka.cli.unread import PipedConsole
from ehkafka.offsets import LagReport

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ehkafka.offsets import GroupOffsets
    from ehkafka.offsets.blocking import Blocking


class Lag(NamedTuple):
    """One look: where the group stands, and which records its commits wait for."""

    report: LagReport
    blocking: Mapping[int, Blocking]

    @classmethod
    def of(cls, group: GroupOffsets) -> Lag:
        """Return how it is now."""
        views = group.views()
        return cls(LagReport.of(views), group.blocking(views))


def lag(group: GroupOffsets, *, fail_over: int | None, as_json: bool) -> int:
    """Print the lag once and return the exit code."""
    with group:
        now = Lag.of(group)
    _put(group, now, as_json=as_json)
    return LAGGING if fail_over is not None and now.report.fails(fail_over) else 0


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
                group, fail_over, every_s, lambda now: _put(group, now, as_json=as_json, is_one=False)
            )
        with Live(console=console, auto_refresh=False, screen=False) as live:

            def redraw(now: Lag) -> bool:
                clock = time.strftime("%H:%M:%S")
                text = f"{printable(group.where)}  {clock}\n\n{_text(group, now)}"
                live.update(Text(text, no_wrap=True, overflow="ellipsis"), refresh=True)
                return True

            return _repeat(group, fail_over, every_s, redraw)
    return 0


def _repeat(
    group: GroupOffsets,
    fail_over: int | None,
    every_s: float,
    put: Callable[[Lag], bool],
) -> int:
    while True:
        now = Lag.of(group)
        is_read = put(now)
        if fail_over is not None and now.report.fails(fail_over):
            return LAGGING
        if fail_over is None and not is_read:
            return 0  # neither its output nor its exit code is for anybody
        _pause(every_s)


def _pause(seconds: float) -> None:
    time.sleep(seconds)


def _put(group: GroupOffsets, now: Lag, *, as_json: bool, is_one: bool = True) -> bool:
    """Print a look; one of several takes one line of JSON, so that a program reads line by line."""
    if as_json:
        place = {"endpoint": group.target.endpoint.name, "topic": group.topic, "group": group.group}
        return put_json({**place, **lag_as_dict(*now, time.time())}, on_one_line=not is_one)
    return put_text(f"{group.where}\n\n{_text(group, now)}")


def _text(group: GroupOffsets, now: Lag) -> str:
    hint = "" if now.report.has_commits else f"\n\n{group.without_commits}"
    return f"{lag_as_text(*now, time.time())}{hint}"
