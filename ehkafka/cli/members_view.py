"""What a terminal shows of members: a line for each and one for all, below the log lines. Elsewhere nothing.

Drawn once a second on a thread of its own, from the app's snapshot. Log lines and what members print go
through the same console, so that nothing writes over the picture.
"""

from __future__ import annotations

import logging
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console
    from rich.live import Live
    from rich.table import Table

    from ehkafka import App
    from ehkafka.telemetry import MemberSnapshot, Snapshot

EVERY_S: Final = 1.0
HEADS: Final = (
    "member", "process", "state", "partitions", "records/s", "lag", "backlog", "oldest s", "restarts",
)  # fmt: skip
_STYLES: Final = {"waiting": "red", "starting": "yellow", "stopping": "yellow"}


@contextmanager
def members_shown(app: App, *, is_wanted: bool) -> Iterator[None]:
    """Show the members of the app while the block runs it, if that is wanted and stderr is a terminal."""
    if not (is_wanted and sys.stderr.isatty()):
        yield
        return
    # A container's log needs none of it.
    from rich.live import Live  # noqa: PLC0415

    ended = threading.Event()
    live = Live(
        console=log_console(), auto_refresh=False, transient=True, redirect_stdout=sys.stdout.isatty()
    )
    live.start()
    thread = threading.Thread(target=_draw, args=(app, live, ended), name="ehkafka-view", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(2 * EVERY_S)
        with suppress(OSError):  # the terminal has gone
            live.stop()


def log_console() -> Console:
    """Return the console that the log writes to, if there is one."""
    from rich.console import Console  # noqa: PLC0415 - as above
    from rich.logging import RichHandler  # noqa: PLC0415 - as above

    handlers = logging.getLogger().handlers
    found = (handler.console for handler in handlers if isinstance(handler, RichHandler))
    return next(found, Console(stderr=True))


def _draw(app: App, live: Live, ended: threading.Event) -> None:
    before: dict[int, int] = {}
    before_s = 0.0
    while not ended.wait(EVERY_S):
        snapshot = app.snapshot()
        if snapshot.members:
            took_s = snapshot.taken_at_s - before_s
            with suppress(OSError):  # the terminal has gone, or takes nothing just now
                live.update(table_of(snapshot, before, took_s), refresh=True)
            before, before_s = {one.number: finished(one) for one in snapshot.members}, snapshot.taken_at_s


def finished(member: MemberSnapshot) -> int:
    """Return how many records a member's process has finished."""
    return 0 if member.snapshot is None else member.snapshot.finished_records


def table_of(snapshot: Snapshot, before: dict[int, int], took_s: float) -> Table:
    """Return the picture. `before` are the finished records of each member, `took_s` seconds ago."""
    from rich.table import Table  # noqa: PLC0415 - as above

    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for head in HEADS:
        table.add_column(head, justify="left" if head == "state" else "right", no_wrap=True)
    rates = []
    for one in snapshot.members:
        # A process that was started again counts from 0.
        gone = finished(one) - before.get(one.number, 0)
        rate = gone / took_s if gone >= 0 and one.number in before else None
        rates.append(rate or 0.0)
        state = one.state if one.is_live or one.state != "running" else "not live"
        cells = [str(one.number), _text(one.pid), state, *_amounts(one.snapshot, rate), str(one.restarts)]
        table.add_row(*cells, style=_STYLES.get(state, "red" if state == "not live" else ""))
    total = _amounts(snapshot, sum(rates))
    restarts = sum(one.restarts for one in snapshot.members)
    table.add_row("all", "", snapshot.state, *total, str(restarts), style="bold")
    return table


def _amounts(snapshot: Snapshot | None, rate: float | None) -> list[str]:
    if snapshot is None:
        return ["–"] * 5
    oldest_s = max((p.oldest.age_s for p in snapshot.partitions if p.oldest is not None), default=None)
    found = (rate, snapshot.lag_records, snapshot.backlog_records)
    oldest = "–" if oldest_s is None else f"{oldest_s:.1f}"
    return [str(len(snapshot.partitions)), *map(_text, found), oldest]


def _text(number: float | None) -> str:
    return "–" if number is None else f"{number:.0f}"
