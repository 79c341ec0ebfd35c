"""Thinning: which repetitions of a warning are not written to the log.

Pure: time comes in as an argument, nothing is written here. Used by `LogLines` on the telemetry thread
alone. It never forgets a suppressed event without handing it out first.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ehkafka.events.event import Failure

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from ehkafka import events

# Within it, one line is enough for a warning and all that repeat it.
WINDOW_S = 30.0
# Warnings watched for repetition at a time. Failing records are a subject each, so this must have an end.
SUBJECTS_MAX = 1_000


class Thinning:
    """Decides which warnings are written; below `WARNING` all are."""

    def __init__(self) -> None:
        # In the order in which the windows end.
        self._windows: OrderedDict[Hashable, _Window] = OrderedDict()
        self.suppressed = 0  # over all windows

    def admit(self, event: events.Event, now_s: float) -> int | None:
        """Return how many were suppressed since the last line of this subject; `None`: suppress this too."""
        if event.level < logging.WARNING:
            return 0
        key = (type(event), event.subject())
        window = self._windows.get(key)
        if window is not None and now_s - window.opened_s < WINDOW_S:
            window.suppressed += 1
            if window.last is None:
                window.first_at_s = event.at_s
            window.last = event.without_exception() if isinstance(event, Failure) else event
            self.suppressed += 1
            return None
        self._windows[key] = _Window(now_s)
        self._windows.move_to_end(key)
        suppressed = 0 if window is None else window.suppressed
        self.suppressed -= suppressed
        return suppressed

    def owed(self, now_s: float | None) -> Iterator[tuple[events.Event, int, float]]:
        """Close the windows that are over (without a time: all) and those beyond `SUBJECTS_MAX`.

        Yields the last suppressed event of each, with how many others were suppressed, and since when; that
        line opens a window anew.
        """
        while self._windows:
            key, window = next(iter(self._windows.items()))
            too_many = len(self._windows) > SUBJECTS_MAX
            if now_s is not None and now_s - window.opened_s < WINDOW_S and not too_many:
                return
            del self._windows[key]
            if window.last is None:
                continue
            if now_s is not None and not too_many:
                self._windows[key] = _Window(now_s)
            self.suppressed -= window.suppressed
            yield window.last, window.suppressed - 1, window.first_at_s


@dataclass(slots=True)
class _Window:
    opened_s: float
    # How many were suppressed since, when the first of them happened, and the last one.
    suppressed: int = 0
    first_at_s: float = 0.0
    last: events.Event | None = None
