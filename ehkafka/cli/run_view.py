"""What a terminal shows below the log lines of a run: its members, or how far it is behind.

Drawn once a second on a thread of its own, from the app's snapshot. Log lines and what handlers and members
print go through the same console, so that nothing writes over the picture.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections import deque
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.live import Live
from rich.logging import RichHandler
from rich.table import Table
from rich.text import Text

from ehkafka.cli.top.rows import panel_rows
from ehkafka.http.measures import Rates
from ehkafka.http.panels import PANELS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import RenderableType

    from ehkafka import App
    from ehkafka.telemetry import PartitionSnapshot, Snapshot

EVERY_S: Final = 1.0
# A rate is the mean over so many looks.
RATE_SAMPLES: Final = 10
# An app is behind when it has so many seconds of its own rate before it, and this many records at least; it
# is no more when a tenth of either is left.
BEHIND_S: Final = 5.0
BEHIND_RECORDS: Final = 500
CAUGHT_UP_PART: Final = 0.1


def members_shown(app: App) -> View:
    """Show the members of the app while the block runs it."""
    rates = Rates()

    def picture(_console: Console) -> Table | None:
        snapshot = app.snapshot()
        return table_of(snapshot.as_dict(), rates) if snapshot.members else None

    return View(picture)


@contextmanager
def progress_shown(app: App, *, to_end: bool) -> Iterator[None]:
    """Show how far the app is behind while it is, and the block runs it."""
    distance = Distance(to_end)

    def picture(console: Console) -> Text | None:
        distance.take(app.snapshot())
        return bar_of(distance, console.width) if distance.is_behind else None

    # The bar says the same as these lines, all the time.
    handlers = logging.getLogger().handlers if to_end else []
    for handler in handlers:
        handler.addFilter(_is_no_progress)
    try:
        with View(picture):
            yield
    finally:
        for handler in handlers:
            handler.removeFilter(_is_no_progress)


def _is_no_progress(record: logging.LogRecord) -> bool:
    return getattr(record, "event", "") != "AppCatchingUp"


class View:
    """Draws what `picture` returns once a second, on the view's thread, while there is something to draw."""

    def __init__(self, picture: Callable[[Console], RenderableType | None]) -> None:
        logs = (one.console for one in logging.getLogger().handlers if isinstance(one, RichHandler))
        self._console = next(logs, None) or Console(stderr=True)
        self._picture = picture
        self._to_terminal = sys.stdout.isatty()
        self._live: Live | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._draw, name="ehkafka-view", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_error: object) -> None:
        self._ended.set()
        self._thread.join(4 * EVERY_S)
        self._show(None)

    def _draw(self) -> None:
        while not self._ended.wait(EVERY_S):
            self._show(self._picture(self._console))

    def _show(self, found: RenderableType | None) -> None:
        with suppress(OSError):  # the terminal has gone, or takes nothing just now
            if found is None:
                shown, self._live = self._live, None
                if shown is not None:
                    shown.stop()
            elif self._live is None:
                self._live = Live(
                    found,
                    console=self._console,
                    auto_refresh=False,
                    transient=True,
                    redirect_stdout=self._to_terminal,
                )
                self._live.start()
            else:
                self._live.update(found, refresh=True)


@dataclass(slots=True)
class Distance:
    """How far an app is behind, look by look. Pure.

    `to_end`: the way ends where the logs ended at the start, else where they end now. What is left is None
    while it is unknown, and too little while not `is_all`; `per_s` is None at the first look.
    """

    to_end: bool
    left_records: int | None = None
    is_all: bool = False
    done_records: int = 0
    per_s: float | None = None
    is_behind: bool = False
    _samples: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=RATE_SAMPLES))
    # What was finished when the app began to be behind.
    _from_records: int = 0

    def take(self, snapshot: Snapshot) -> None:
        """Take one look."""
        ended = snapshot.finished_records + snapshot.skipped_records + snapshot.dead_lettered_records
        self._samples.append((snapshot.uptime_s, ended))
        first_s, first = self._samples[0]
        took_s = snapshot.uptime_s - first_s
        self.per_s = (ended - first) / took_s if took_s > 0 else None
        lefts = [self._left_of(one) for one in snapshot.partitions]
        known = [left for left in lefts if left is not None]
        self.is_all = len(known) == len(lefts)
        self.left_records = sum(known) if known and not snapshot.is_cut_off else None
        if snapshot.state != "running":
            self.is_behind = False
        elif self.left_records is not None:
            was_behind, self.is_behind = self.is_behind, self._is_behind(self.left_records)
            if self.is_behind and not was_behind:
                self._from_records = first
        self.done_records = ended - self._from_records

    def _left_of(self, partition: PartitionSnapshot) -> int | None:
        return partition.catch_up_records if self.to_end else partition.lag_records

    def _is_behind(self, left_records: int) -> bool:
        if self.to_end:
            return left_records > 0
        if self.per_s is None:
            return False
        limit = max(BEHIND_RECORDS, BEHIND_S * self.per_s)
        return left_records > (limit * CAUGHT_UP_PART if self.is_behind else limit)

    @property
    def left_s(self) -> float | None:
        """Return how long it takes at this rate; None where it is unknown."""
        if self.left_records is None or not self.is_all or not self.per_s:
            return None
        return self.left_records / self.per_s


def bar_of(distance: Distance, width: int) -> Text:
    """Return a line of that width. It is drawn again below each line that is printed meanwhile."""
    left, done = distance.left_records or 0, distance.done_records
    # Without all ends there is no share.
    share = done / max(1, done + left) if distance.is_all else 0.0
    per_s = "–" if distance.per_s is None else f"{distance.per_s:,.0f}"
    amount = (
        f"{share:>4.0%} {per_s} records/s {left:,}"
        if distance.is_all
        else f"{per_s} records/s {left:,} or more"
    )
    words = f" {amount} left {clock_of(distance.left_s)}"
    room = max(0, width - len("catching up ") - len(words))
    bar = (("━" * int(room * share), "green"), ("━" * (room - int(room * share)), "dim"))
    return Text.assemble("catching up ", *bar, words, no_wrap=True, overflow="crop", end="")


def clock_of(time_s: float | None) -> str:
    """Return a time as a clock shows it, an unknown one without digits."""
    if time_s is None or time_s > 99 * 86_400:
        return "-:--:--"
    minutes, second = divmod(round(time_s), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}"


def table_of(snapshot: dict[str, Any], rates: Rates) -> Table:
    """Return the members' panel of the page and `top`, with a line for all of them."""
    rates.note(snapshot)
    members = snapshot["members"]
    total = {
        "number": "all",
        "state": snapshot["state"],
        "pid": None,
        "is_live": all(one["is_live"] for one in members),
        "is_ready": all(one["is_ready"] for one in members),
        "snapshot": snapshot,
        "restarts": sum(one["restarts"] for one in members),
        "silence_s": None,
        "last_end": "",
    }
    panel = next(one for one in PANELS if one.name == "members")
    shown = panel.shown({"snapshot": {"members": [*members, total]}}, rates)
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for column in shown["columns"]:
        table.add_column(
            column["name"], justify="left" if column["kind"] == "text" else "right", no_wrap=True
        )
    for row in panel_rows(shown):
        table.add_row(*row.cells, style="red" if row.is_urgent else "")
    return table
