"""What every event is, what takes them, and the counters beside them."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Protocol, Self

from ehkafka.wording.error_stack import place_of


@dataclass(frozen=True, slots=True)
class Event:
    """Base of every event. `level` is the severity that the log line gets."""

    level: ClassVar[int] = logging.INFO


@dataclass(frozen=True, slots=True)
class Failure(Event):
    """Base of what tells of an error in the user's code.

    `place` is the innermost line of that code, as `file:line in function`, empty where none is known.
    `exception` is the error itself, for a hook that sends it on: with it go its frames and what they hold,
    so it is None in events that wait behind a thousand others, and in lines that were put off.
    """

    place: str = field(default="", kw_only=True)
    exception: BaseException | None = field(default=None, kw_only=True, compare=False, repr=False)

    def without_exception(self) -> Self:
        """Return the event without what keeps the error's frames in memory."""
        return self if self.exception is None else replace(self, exception=None)


def raised(error: BaseException) -> dict[str, Any]:
    """Return what a `Failure` tells of an error, for its keyword arguments."""
    return {"place": place_of(error), "exception": error}


class Hook(Protocol):
    """Receives every event, one at a time, on the telemetry thread.

    It may block or raise: the data path never waits for it. An error is logged once per hook and kind
    of error and counted in `hook_errors`; events that a slow hook makes overflow are counted in
    `events_dropped`.
    """

    def on_event(self, event: Event, /) -> None:
        """Take one event."""


# Beside the one that each kind of event has under its class name.
CounterName = Literal[
    "events_dropped",
    "hook_errors",
    "pause_refused",
    "records_lost",
    "records_restored",
    "records_too_old",
    "records_unassigned",
]
