"""Log lines: what each event says of itself, with fields for structured loggers, repeated warnings thinned.

`LogLines` belongs to the telemetry thread and is used there alone, so it has no lock. It may raise or
block with the handlers of the user's logging; the event bus is prepared for both. It never counts
events (the bus has done so before) and never shows a record's value or headers. A whole assignment is one
line: the events of its partitions, which come one by one, are gathered; none is held back for longer than the
next one of another kind, or `GATHER_S` without any.
"""

from __future__ import annotations

import dataclasses
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

from ehkafka.events.app import AppStopped
from ehkafka.events.event import Failure
from ehkafka.events.rebalance import Rebalanced
from ehkafka.records import TopicPartition
from ehkafka.telemetry.thinning import WINDOW_S, Thinning
from ehkafka.wording import clock_time
from ehkafka.wording.answers import with_answer
from ehkafka.wording.error_stack import kind_of, stack_of

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

    from ehkafka import events

# The partitions of one assignment follow each other within a few milliseconds.
GATHER_S = 50e-3


# Kinds of errors that are known at a time; one that was forgotten shows its stack again.
KINDS_MAX = 1_000


class LogLines:
    """Writes events to a logger, repeated warnings at most once per window and subject.

    What is suppressed is never lost without a word: the next line of its subject says how many were,
    and if no event brings that line, a summary does, with the last suppressed one and when that was. A line
    has the time of its event, a summary its own; none comes behind the line that the app has stopped.

    The stack of an error in the user's code follows the first line of its kind, which is its type and the
    line of that code; later lines say how many there were.
    """

    def __init__(self, logger: logging.Logger, now_s: Callable[[], float]) -> None:
        self._logger = logger
        self._now_s = now_s
        self._thinning = Thinning()
        # Events of one rebalance that share a line.
        self._gathered: list[Rebalanced] = []
        self._kinds = _ErrorKinds()

    @property
    def owes_lines(self) -> bool:
        """Whether suppressed warnings wait for `write_owed`."""
        return self._thinning.suppressed > 0

    @property
    def gathered_events(self) -> int:
        """How many events wait for the line that they share."""
        return len(self._gathered)

    @property
    def patience_s(self) -> float | None:
        """How long `write_owed` may be waited for if no event comes; None: for ever."""
        if self._gathered:
            return GATHER_S
        return WINDOW_S if self.owes_lines else None

    def write(self, event: events.Event) -> None:
        """Log an event at its level, unless it repeats a warning of the current window.

        The partitions of one assignment share a line, written with the next other event or `write_owed`.
        """
        if isinstance(event, AppStopped):
            self._write_gathered()
            self._write_suppressed(everything=True, at_s=event.at_s)
        if self._gathered and not (
            isinstance(event, Rebalanced) and event.shares_line_with(self._gathered[0])
        ):
            self._write_gathered()
        if not self._logger.isEnabledFor(event.level):
            pass
        elif isinstance(event, Rebalanced):
            self._gathered.append(event)
        else:
            self._kinds.count(event)
            if (suppressed := self._thinning.admit(event, self._now_s())) is not None:
                self._write_now(event, suppressed)
        self._write_suppressed()

    def write_owed(self, *, everything: bool = False) -> None:
        """Log what was gathered, and of each subject whose window is over, or of all, the last warning."""
        self._write_gathered()
        self._write_suppressed(everything=everything)

    def _write_suppressed(self, *, everything: bool = False, at_s: float | None = None) -> None:
        for event, others, first_at_s in self._thinning.owed(None if everything else self._now_s()):
            when = f"Also at {clock_time(event.at_s)}"
            if others:
                when = f"{others + 1} more times from {clock_time(first_at_s)} to {clock_time(event.at_s)}"
            extra: dict[str, object] = {
                "suppressed": others,
                "first_at_s": first_at_s,
                "last_at_s": event.at_s,
            }
            line = f"{when}: {with_answer(event.sentence(), event)}"
            self._log(event, line, extra, time.time() if at_s is None else at_s)

    def _write_gathered(self) -> None:
        gathered, self._gathered = self._gathered, []
        if len(gathered) > 1:
            kind = type(gathered[0])
            extra = kind.fields_of(gathered) | {"suppressed": 0}
            line = with_answer(kind.sentence_of(gathered), gathered[0])
            self._put(kind.level, line, extra, gathered[0].at_s)
        elif gathered:
            self._write_now(gathered[0], 0)

    def _write_now(self, event: events.Event, suppressed: int) -> None:
        line = with_answer(event.sentence(), event)
        if suppressed:
            line += f" ({suppressed} more like it since the last such line.)"
        self._log(event, line, {"suppressed": suppressed}, event.at_s)

    def _log(self, event: events.Event, line: str, extra: dict[str, object], at_s: float) -> None:
        extra = fields(event) | extra
        if below := event.attachment():
            line += f"\n{below}"
        if isinstance(event, Failure):
            line += self._kinds.count_of(event)
            if stack := self._kinds.take_stack(event):
                line += f"\n{stack}"
                extra["stack"] = stack
        self._put(event.level, line, extra, at_s)

    def _put(self, level: int, line: str, extra: dict[str, object], at_s: float) -> None:
        record = self._logger.makeRecord(self._logger.name, level, __file__, 0, line, (), None, extra=extra)
        record.created, record.msecs = at_s, at_s % 1 * 1000
        self._logger.handle(record)


class _ErrorKinds:
    """Which kinds of errors came, how often, and whether their stack was shown. The last used stay known."""

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[str, str], _Kind] = OrderedDict()

    def count(self, event: events.Event) -> None:
        """Count an error, if the event tells of one."""
        if isinstance(event, Failure) and event.exception is not None:
            key = _key_of(event, event.exception)
            self._seen.setdefault(key, _Kind()).errors += 1
            self._seen.move_to_end(key)
            if len(self._seen) > KINDS_MAX:
                self._seen.popitem(last=False)

    def count_of(self, event: Failure) -> str:
        """Say how many there were of a kind whose stack was shown before."""
        kind = None if event.exception is None else self._seen.get(_key_of(event, event.exception))
        if kind is None or not kind.is_shown:
            return ""
        return f" ({kind.errors} such errors so far; the line of the first one has the stack.)"

    def take_stack(self, event: Failure) -> str:
        """Return the stack of a kind's first error, later nothing; nor for one that was never raised."""
        if event.exception is None:
            return ""
        kind = self._seen.get(_key_of(event, event.exception))
        if kind is None or kind.is_shown:
            return ""
        kind.is_shown = bool(stack := stack_of(event.exception))
        return stack


@dataclasses.dataclass(slots=True)
class _Kind:
    errors: int = 0
    is_shown: bool = False


def _key_of(event: Failure, error: BaseException) -> tuple[str, str]:
    return kind_of(error), event.place


def fields(event: events.Event) -> dict[str, object]:
    """Return an event's fields for structured loggers: `event` is its kind, the rest is JSON-ready.

    A partition becomes `topic` and `partition`; within a sequence it is named as `topic[partition]`.
    """
    named: dict[str, object] = {"event": type(event).__name__}
    for field in dataclasses.fields(event):
        if field.name in ("at_s", "exception"):
            continue  # the record's own time; for hooks, while the line and the stack say what it is
        value = getattr(event, field.name)
        if isinstance(value, TopicPartition):
            named |= value._asdict()
        else:
            named[field.name] = _plain(value)
    return named


def _plain(value: object) -> object:
    if isinstance(value, TopicPartition):
        return str(value)
    return [_plain(item) for item in value] if isinstance(value, tuple) else value
