"""Where log lines go while a command runs: stderr, coloured on a terminal, one plain line each elsewhere.

Set before the user's module is imported, so that its own `logging` configuration, if any, has the last
word. Called once, on the main thread.
"""

from __future__ import annotations

import enum
import logging
import sys

from rich.console import Console
from rich.logging import RichHandler

PLAIN = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


class LogLevel(enum.StrEnum):
    """What `--log-level` takes."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    @property
    def number(self) -> int:
        """The level as `logging` counts it."""
        return logging.getLevelNamesMapping()[self.upper()]


def log_to_stderr(level: LogLevel) -> None:
    """Send every logger's lines from this level on to stderr."""
    handler: logging.Handler
    if sys.stderr.isatty():
        # No markup: a key or an error text may contain brackets.
        console = Console(stderr=True)
        handler = RichHandler(console=console, show_path=False, markup=False, log_time_format="[%X]")
    else:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter(PLAIN))
    logging.basicConfig(level=level.number, handlers=[handler])
    if level is not LogLevel.DEBUG:
        # One line per HTTP request otherwise, and one per call between Spark's driver and its JVM.
        for name in ("azure", "py4j"):
            logging.getLogger(name).setLevel(logging.WARNING)
