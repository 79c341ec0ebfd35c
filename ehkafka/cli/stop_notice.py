"""What a person at the terminal must know during a stop: that it drains, how long, and how to cut it short.

A hook: called on the telemetry thread, one event at a time.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import typer

from ehkafka.events import AppStopping, Draining

if TYPE_CHECKING:
    from ehkafka.events import Event


class StopNotice:
    """Says how to exit at once; counts down where the log level hides the log's own countdown."""

    def __init__(self, log_level: int) -> None:
        self._log_shows_it = log_level <= logging.INFO

    def on_event(self, event: Event, /) -> None:
        """Write a line for the two events that matter here."""
        if isinstance(event, AppStopping) and event.drain != "running" and event.reason == "SIGINT":
            what = "received" if event.drain == "all" else "started"
            typer.echo(
                f"Finishing the records that were {what}; press Ctrl-C again to stop at once.", err=True
            )
        elif isinstance(event, Draining) and not self._log_shows_it:
            typer.echo(event.sentence(), err=True)
