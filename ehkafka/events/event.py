"""What every event is."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from ehkafka.error_stack import place_of


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
