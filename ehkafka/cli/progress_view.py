"""What a terminal shows of an app that is behind: a bar with rate and time left, below the log lines.

It comes when the app is behind and goes when it has caught up; elsewhere than on a terminal there is none.
Drawn on a thread of its own, from the app's snapshot. Log lines and what handlers print go through the same
console, so that nothing writes over the picture.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections import deque
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from io import StringIO
from typing import TYPE_CHECKING, Final

from ehkafka.cli.members_view import log_console

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console
    from rich.live import Live
    from rich.progress import Progress
    from rich.text import Text

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


@dataclass(slots=True)
class Distance:
    """How far an app is behind, look by look. Pure.

    `to_end`: the way ends where the logs ended at the start, else where they end now. What is left is None
    while nobody knows anything of it, and too little while not `is_all`; `per_s` is None at the first look.
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
        """Return how long it takes at this rate; None where nobody can tell."""
        if self.left_records is None or not self.is_all or not self.per_s:
            return None
        return self.left_records / self.per_s


@contextmanager
def progress_shown(app: App, *, is_wanted: bool, to_end: bool) -> Iterator[None]:
    """Show how far the app is behind while the block runs it, if stderr is a terminal."""
    if not (is_wanted and sys.stderr.isatty()):
        yield
        return
    ended = threading.Event()
    bar = _Bar(Distance(to_end))
    thread = threading.Thread(target=bar.draw, args=(app, ended), name="ehkafka-view", daemon=True)
    # The bar says the same, all the time.
    handlers = logging.getLogger().handlers if to_end else []
    for handler in handlers:
        handler.addFilter(_is_no_progress)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(4 * EVERY_S)
        bar.remove()
        for handler in handlers:
            handler.removeFilter(_is_no_progress)


def _is_no_progress(record: logging.LogRecord) -> bool:
    return getattr(record, "event", "") != "AppCatchingUp"


class _Bar:
    """The bar while there is one. On the view's thread; `remove` once that has ended."""

    def __init__(self, distance: Distance) -> None:
        self._distance = distance
        self._progress: Progress | None = None
        self._live: Live | None = None

    def draw(self, app: App, ended: threading.Event) -> None:
        while not ended.wait(EVERY_S):
            self._distance.take(app.snapshot())
            if self._distance.is_behind:
                with suppress(OSError):  # the terminal has gone, or takes nothing just now
                    self._show()
            else:
                self.remove()

    def remove(self) -> None:
        """Take the bar away; what was logged stays."""
        live, self._live = self._live, None
        if live is not None:
            with suppress(OSError):  # as above
                live.stop()

    def _show(self) -> None:
        from rich.live import Live  # noqa: PLC0415 - a container's log needs none of it

        console = log_console()
        line = self._line(console)
        if self._live is None:
            to_terminal = sys.stdout.isatty()
            live = Live(
                line, console=console, auto_refresh=False, transient=True, redirect_stdout=to_terminal
            )
            live.start()
            self._live = live
        else:
            self._live.update(line, refresh=True)

    def _line(self, console: Console) -> Text:
        """Return the bar as a text.

        It is drawn again below each line that is printed meanwhile: out of its columns that took 4 ms.
        """
        from rich.console import Console  # noqa: PLC0415 - as above
        from rich.text import Text  # noqa: PLC0415 - as above

        if self._progress is None:
            self._progress = _progress()
        distance = self._distance
        left, done = distance.left_records or 0, distance.done_records
        (task,) = self._progress.task_ids
        self._progress.update(
            task,
            completed=done,
            # Without one the bar moves to and fro, and there is no share.
            total=done + left if distance.is_all else None,
            per_s="–" if distance.per_s is None else f"{distance.per_s:,.0f}",
            left=f"{left:,}" if distance.is_all else f"{left:,} or more",
            left_s=clock_of(distance.left_s),
        )
        file = StringIO()
        # In true colours if at all: they are translated again for the terminal.
        aside = Console(file=file, width=console.width, force_terminal=True, color_system="truecolor")
        aside.print(self._progress.get_renderable(), end="")
        text = Text.from_ansi(file.getvalue(), no_wrap=True, overflow="crop", end="")
        text.rstrip()
        return text


def _progress() -> Progress:
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn  # noqa: PLC0415

    progress = Progress(
        TextColumn("catching up"),
        BarColumn(bar_width=None),
        TaskProgressColumn(),
        TextColumn("{task.fields[per_s]} records/s"),
        TextColumn("{task.fields[left]} left"),
        TextColumn("{task.fields[left_s]}"),
        auto_refresh=False,
        expand=True,
    )
    progress.add_task("", per_s="", left="", left_s="")
    return progress


def clock_of(time_s: float | None) -> str:
    """Return a time as a clock shows it, without one that nobody can tell."""
    if time_s is None or time_s > 99 * 86_400:
        return "-:--:--"
    minutes, second = divmod(round(time_s), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}"
