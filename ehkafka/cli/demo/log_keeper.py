"""Keeps warnings while the live view owns the terminal, to be shown in it and printed after it."""

from __future__ import annotations

import logging
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

LINES_KEPT: Final = 20


class LogKeeper(logging.Handler):
    """Collects lines in a bounded deque; appending is atomic, so any thread may log."""

    def __init__(self, lines: deque[str]) -> None:
        super().__init__(logging.WARNING)
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line."""
        self._lines.append(f"{record.levelname.lower()}: {record.getMessage()}")


@contextmanager
def kept_warnings() -> Iterator[deque[str]]:
    """Collect the last warnings of every logger until the block ends."""
    lines: deque[str] = deque(maxlen=LINES_KEPT)
    keeper = LogKeeper(lines)
    root = logging.getLogger()
    root.addHandler(keeper)
    try:
        yield lines
    finally:
        root.removeHandler(keeper)
