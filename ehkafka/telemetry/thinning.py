"""Thinning: which repetitions of a warning are not written to the log.

Pure: time comes in as an argument, nothing is written here. Used by `LogLines` on the telemetry thread
alone. It never forgets a suppressed event without handing it out first.
"""

from __future__ import annotations

import logging
import re
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ehkafka import events
from ehkafka.events.event import Failure

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

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
        key = (type(event), _subject(event))
        window = self._windows.get(key)
        if window is not None and now_s - window.opened_s < WINDOW_S:
            window.suppressed += 1
            window.last = event.without_exception() if isinstance(event, Failure) else event
            self.suppressed += 1
            return None
        self._windows[key] = _Window(now_s)
        self._windows.move_to_end(key)
        suppressed = 0 if window is None else window.suppressed
        self.suppressed -= suppressed
        return suppressed

    def owed(self, now_s: float | None) -> Iterator[tuple[events.Event, int]]:
        """Close the windows that are over (without a time: all) and those beyond `SUBJECTS_MAX`.

        Yields the last suppressed event of each, with how many others were suppressed; that line opens
        a window anew.
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
            yield window.last, window.suppressed - 1


@dataclass(slots=True)
class _Window:
    opened_s: float
    # How many were suppressed since, and the last of them.
    suppressed: int = 0
    last: events.Event | None = None


def _subject(event: events.Event) -> Hashable:
    """Return what two warnings of one kind must share to be repetitions of each other.

    Never an error's text as it is: a broker's id or milliseconds in it would make each one new.
    """
    subject = _SUBJECTS.get(type(event))
    return None if subject is None else subject(event)


# Kinds that are missing here are repetitions of each other whatever they say.
_SUBJECTS: dict[type[events.Event], Callable[[Any], Hashable]] = {
    events.PartitionLost: lambda event: event.partition,
    events.StaleResult: lambda event: event.partition,
    events.DeferredAnswerDropped: lambda event: (event.partition.topic, event.reason),
    # When one call hangs, all do: one stack tells where; health names every record, hooks hear of each.
    events.AttemptOverdue: lambda event: event.handler,
    events.RecordsTooOld: lambda event: event.partition,
    events.ParkedBudgetFull: lambda event: event.partition,
    # A second gap is another loss, never a repetition.
    events.LogReplaced: lambda event: (event.partition, event.reason),
    events.OffsetGap: lambda event: (event.partition, event.wanted_offset, event.log_start, event.log_end),
    # Topics rather than partitions: which of them are dirty differs from commit to commit.
    events.CommitFailed: lambda event: (frozenset(p.topic for p in event.partitions), event.retriable),
    # The attempts of one record; its final decision differs and is thus always written.
    events.HandlerFailed: lambda event: (
        event.partition,
        event.offset,
        _without_numbers(event.decision),
        event.place,
    ),
    # A flood of them has few reasons: one line for each kind of error of a topic, and where it is raised.
    events.RecordRetried: lambda event: (event.partition.topic, _kind(event.error), event.place),
    events.BatchRaised: lambda event: (event.handler, _kind(event.error), event.place),
    events.RecordSkipped: lambda event: (event.partition.topic, _kind(event.reason), event.place),
    events.RecordDeadLettered: lambda event: (event.partition.topic, event.to),
    events.DeadLetterFailed: lambda event: (event.to, event.retry_s is None, event.place),
    events.ConnectionProblem: lambda event: (event.code, event.fatal),
    events.CredentialUnusable: lambda event: (event.source, _without_numbers(event.reason)),
    events.UserCodeFailed: lambda event: (event.where, event.place),
    events.SettingAdvice: lambda event: event.property,
    events.Throttled: lambda event: event.broker,
    # That the token in use expired meanwhile is news.
    events.TokenRefreshFailed: lambda event: (event.endpoint, event.valid_s > 0),
    events.ClientLogged: lambda event: _without_numbers(event.text),
}


def _kind(error: str) -> str:
    return _without_numbers(error.partition(":")[0])


def _without_numbers(text: str) -> str:
    return re.sub(r"[\d.]+", "#", text)
