"""What every event is, what takes them, and the counters that are no events.

An event knows how it is logged: `level`, `sentence`, what stands below it (`attachment`), and `subject`, by
which repetitions are found. Telemetry asks it, so a new kind is a class in the file of its group and no more:
`class Throttled(Event, level=WARNING, subject="broker")`.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field, replace
from logging import INFO
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self, dataclass_transform

from ehkafka.wording.error_stack import place_of
from ehkafka.wording.line import plain

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class _Declared:
    """Makes each class below a frozen dataclass, by what stands in its class line."""

    level: ClassVar[int] = INFO
    _subject: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(
        cls, *, level: int | None = None, subject: str | tuple[str, ...] = (), kw_only: bool = False
    ) -> None:
        """Take the severity that the log line gets, and the fields that are its `subject()`."""
        super().__init_subclass__()
        if level is not None:
            cls.level = level
        if subject:
            cls._subject = (subject,) if isinstance(subject, str) else subject
        dataclass(frozen=True, kw_only=kw_only)(cls)


class Event(_Declared):
    """Base of every event. `at_s`: the event's time, in seconds since 1970."""

    at_s: float = field(default_factory=time.time, kw_only=True, compare=False, repr=False)

    @classmethod
    def counter(cls) -> str:
        """Return the name of the counter that counts events of this kind."""
        return cls.__name__

    def sentence(self) -> str:
        """Return the event's line for the log, without a record's value or headers.

        Raises `NotImplementedError` for a kind that has no sentence.
        """
        raise NotImplementedError(f"{type(self).__name__} has no sentence; write a method sentence() for it")

    def subject(self) -> Hashable:
        """Return what two warnings of this kind must share to be repetitions of each other.

        Never an error's text as it is: a broker's ID or milliseconds in it would make each warning new.
        If a kind names no `subject`, all its events are repetitions of each other.
        """
        return tuple(getattr(self, name) for name in self._subject)

    def attachment(self) -> str:
        """Return what the log shows below the sentence, such as the stacks of threads; mostly nothing."""
        return ""


class Failure(Event):
    """Base of the events of an error in your code.

    `place` is the innermost line of your code, as `file:line in function`; empty if the line is unknown.
    `exception` is the error itself, for a hook that sends it to an error tracker. Because an error keeps its
    frames in memory, `exception` is None if the event waits behind a thousand others, or was postponed.
    """

    place: str = field(default="", kw_only=True)
    exception: BaseException | None = field(default=None, kw_only=True, compare=False, repr=False)

    @property
    def at_place(self) -> str:
        """The line of the user's code in brackets, for a sentence; nothing where none is known."""
        return f" ({plain(self.place)})" if self.place else ""

    def without_exception(self) -> Self:
        """Return the event without what keeps the error's frames in memory."""
        return self if self.exception is None else replace(self, exception=None)


def raised(error: BaseException) -> dict[str, Any]:
    """Return what a `Failure` tells of an error, for its keyword arguments."""
    return {"place": place_of(error), "exception": error}


def kind_in(error: str) -> str:
    """Return the kind of an error that an event has as text: of `OSError: disk full` it is `OSError`."""
    return without_numbers(error.partition(":")[0])


def without_numbers(text: str) -> str:
    """Return a text in which offsets, ids and times are alike, for `Event.subject`."""
    return re.sub(r"[\d.]+", "#", text)


class Hook(Protocol):
    """Receives every event, one at a time, on the telemetry thread.

    A hook may block or raise: handling records never waits for a hook. An error is logged once per hook
    and kind of error, and counted in `hook_errors`. If a hook is so slow that events are dropped,
    `events_dropped` counts these events.
    """

    def on_event(self, event: Event, /) -> None:
        """Take one event.

        - `event` (required): of a class of the catalogue; `str(event)` is its sentence.
        """


# In addition to the one that each kind of event has under its class name.
CounterName = Literal[
    "events_dropped",
    "hook_errors",
    "pause_refused",
    "rebalances_assigned",
    "rebalances_lost",
    "rebalances_revoked",
    "records_lost",
    "records_restored",
    "records_too_old",
    "records_unassigned",
]

# What each of them counts.
COUNTERS: Mapping[CounterName, str] = MappingProxyType(
    {
        "events_dropped": "events that a hook or a log handler was too slow for; only counted",
        "hook_errors": "errors raised by hooks and log handlers",
        "pause_refused": "pauses before a stop that came too late: the partitions had just been lost",
        "rebalances_assigned": "rebalances in which the group gave this member partitions, or none",
        "rebalances_lost": "rebalances without this member: its partitions may be another's already",
        "rebalances_revoked": "rebalances in which the group took partitions away in good order",
        "records_lost": "offsets that the log no longer held when they were to be read, and those skipped",
        "records_restored": "records received again whose outcome had been saved; not handled again",
        "records_too_old": "records older than max_age when they were received; skipped and committed past",
        "records_unassigned": "records fetched for a partition that was no longer ours; not handled here",
    }
)
