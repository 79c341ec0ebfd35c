"""Log lines: the sentences of events, with fields for structured loggers, repeated warnings thinned.

`LogLines` belongs to the telemetry thread and is used there alone, so it has no lock. It may raise or
block with the handlers of the user's logging; the event bus is prepared for both. It never counts
events (the bus has done so before) and never shows a record's value or headers.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from ehkafka import events
from ehkafka.records import TopicPartition
from ehkafka.telemetry.rebalance_lines import GATHER_S, Gathered, fields_of_many, sentence_of_many
from ehkafka.telemetry.sentences import sentence
from ehkafka.telemetry.thinning import WINDOW_S, Thinning

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable


class LogLines:
    """Writes events to a logger, repeated warnings at most once per window and subject.

    What is suppressed is never lost without a word: the next line of its subject says how many were,
    and if no event brings that line, `write_owed` does, with the last suppressed one.
    """

    def __init__(self, logger: logging.Logger, now_s: Callable[[], float]) -> None:
        self._logger = logger
        self._now_s = now_s
        self._thinning = Thinning()
        self._gathered = Gathered()

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
        takes = self._gathered.takes(event)
        if self._gathered and not takes:
            self._write_gathered()
            takes = self._gathered.takes(event)
        if not self._logger.isEnabledFor(event.level):
            pass
        elif takes:
            self._gathered.add(event)
        elif (suppressed := self._thinning.admit(event, self._now_s())) is not None:
            self._log(event, suppressed)
        self._write_suppressed()

    def write_owed(self, *, everything: bool = False) -> None:
        """Log what was gathered, and of each subject whose window is over, or of all, the last warning."""
        self._write_gathered()
        self._write_suppressed(everything=everything)

    def _write_suppressed(self, *, everything: bool = False) -> None:
        for event, suppressed in self._thinning.owed(None if everything else self._now_s()):
            self._log(event, suppressed)

    def _write_gathered(self) -> None:
        gathered = self._gathered.take()
        if len(gathered) > 1:
            extra = fields_of_many(gathered) | {"suppressed": 0}
            self._logger.log(gathered[0].level, sentence_of_many(gathered), extra=extra)
        elif gathered:
            self._log(gathered[0], 0)

    def _log(self, event: events.Event, suppressed: int) -> None:
        line = sentence(event)
        if suppressed:
            line += f" ({suppressed} more like it since the last such line.)"
        if isinstance(event, events.StuckReport):
            line += f"\n{event.stacks}"
        elif isinstance(event, events.AttemptOverdue):
            line += f"\n{event.stack}"
        self._logger.log(event.level, line, extra=fields(event) | {"suppressed": suppressed})


def fields(event: events.Event) -> dict[str, object]:
    """Return an event's fields for structured loggers: `event` is its kind, the rest is JSON-ready.

    A partition becomes `topic` and `partition`; within a sequence it is named as `topic[partition]`.
    """
    named: dict[str, object] = {"event": type(event).__name__}
    for field in dataclasses.fields(event):
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
