"""Shows where the run is: on a terminal one line with the time left, elsewhere one line for each result."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, TextIO

from _live.probe import Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from _live.probe import Probe, Result

TICK_S = 0.5
MARKS = {Status.OK: "✓", Status.DIFFERS: "≠", Status.NOTED: "·", Status.UNTRIED: "–"}


class Progress:
    """The display; the ticker is a thread of its own that only writes."""

    def __init__(self, probes: Sequence[Probe], stream: TextIO) -> None:
        self._probes = probes
        self._stream = stream
        self._is_live = stream.isatty()
        self._number = 0
        self._began_s = 0.0
        self._ended = threading.Event()
        self._lock = threading.Lock()
        if self._is_live:
            threading.Thread(target=self._tick, name="live-progress", daemon=True).start()

    def begin(self, number: int, probe: Probe) -> None:
        """Show which probe runs."""
        with self._lock:
            self._number, self._began_s = number, time.monotonic()
            self._show(probe)

    def end(self, result: Result) -> None:
        """Show what it has seen."""
        with self._lock:
            self._write(f"{MARKS[result.status]} {result.name:<13}{result.status}: {result.seen}\n")

    def close(self) -> None:
        """Stop the ticker."""
        self._ended.set()
        self._write("")

    def _tick(self) -> None:
        while not self._ended.wait(TICK_S):
            with self._lock:
                if self._began_s and not self._ended.is_set():
                    self._show(self._probes[self._number])

    def _show(self, probe: Probe) -> None:
        if not self._is_live:
            return
        passed_s = time.monotonic() - self._began_s
        left_s = max(0.0, probe.expected_s - passed_s)
        left_s += sum(one.expected_s for one in self._probes[self._number + 1 :])
        place = f"{self._number + 1}/{len(self._probes)}"
        self._write(f"[{place}] {probe.name}: {passed_s:.0f} s, about {left_s / 60:.0f} min left")

    def _write(self, text: str) -> None:
        clear = "\r\033[K" if self._is_live else ""
        self._stream.write(f"{clear}{text}")
        self._stream.flush()
