"""Where log lines go while a command runs: stderr, coloured on a terminal, one plain line each elsewhere.

Or one JSON object to a line, wherever they go: then a command's last words, too, are a line of the log.

Set before the user's module is imported, so that its own `logging` configuration, if any, has the last
word. Called once, on the main thread.
"""

from __future__ import annotations

import enum
import logging
import sys
from typing import Annotated, Final

import typer

from ehkafka.members.logs import LOGS_FIRST, writes_json
from ehkafka.telemetry.json_lines import JsonLines

LEVEL_VARIABLE: Final = "EHKAFKA_LOG_LEVEL"
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


class LogFormat(enum.StrEnum):
    """What `--log-format` takes."""

    TEXT = "text"
    JSON = "json"


LogLevelOption = Annotated[
    LogLevel,
    typer.Option(
        "--log-level",
        help="Write log lines of this level and above to stderr.",
        envvar=LEVEL_VARIABLE,
        case_sensitive=False,
    ),
]
LogFormatOption = Annotated[
    LogFormat,
    typer.Option("--log-format", help="text: lines for people; json: one JSON object for each line."),
]


def log_to_stderr(level: LogLevel, form: LogFormat = LogFormat.TEXT) -> None:
    """Send every logger's lines from this level on to stderr."""
    handler: logging.Handler
    if form is LogFormat.JSON:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(JsonLines())
    elif sys.stderr.isatty():
        # A container's log needs none of it.
        from rich.console import Console  # noqa: PLC0415
        from rich.logging import RichHandler  # noqa: PLC0415

        # No markup: a key or an error text may contain brackets.
        console = Console(stderr=True)
        handler = RichHandler(console=console, show_path=False, markup=False, log_time_format="[%X]")
        # Time and level have columns of their own.
        handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    else:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter(PLAIN))
    # By this name a member of ours knows that it is to set its log up before it imports the app, too.
    handler.set_name(LOGS_FIRST)
    logging.basicConfig(level=level.number, handlers=[handler])
    if level is not LogLevel.DEBUG:
        # One line per HTTP request otherwise, and one per call between Spark's driver and its JVM.
        for name in ("azure", "py4j"):
            logging.getLogger(name).setLevel(logging.WARNING)


def logged_as_json(text: str, error: BaseException | None = None, level: int = logging.ERROR) -> bool:
    """Log what a command says itself where its log is JSON; tell whether it is."""
    if not writes_json():
        return False
    logging.getLogger("ehkafka").log(level, "%s", text, exc_info=error)
    return True
