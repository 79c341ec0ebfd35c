"""What a drop-in consumer tells of itself, and where it does something else than confluent-kafka.

An app's telemetry has a thread for log lines; a program that changed an import expects none, so they are
written where something happens. The lock may be held while a log handler runs, so no other lock may be
taken in one that logs through this room. Each deviation is logged once, when it first matters.
"""

from __future__ import annotations

import logging
import threading
import time
import traceback
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from ehkafka.events.consumer import DropInDeviated
from ehkafka.telemetry.log_lines import LogLines

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ehkafka.events import Event

Deviation = Literal["bare_commit", "coalescing", "auto_commit", "callbacks", "replaced_logs", "settings"]

DEVIATIONS: Mapping[Deviation, str] = MappingProxyType(
    {
        "bare_commit": "commit() without arguments commits the positions at the time of the call; "
        "confluent-kafka reads the positions later, when they may be past records of the next batch",
        "coalescing": "while one commit request is unanswered, further commits share the next request; on "
        "Event Hubs, asynchronous commits are at least 1 s apart. Waiting commits are sent before a revoke "
        "and at close(). confluent-kafka sends one request for each commit",
        "auto_commit": "enable.auto.commit commits the records of a poll after the next poll has begun, and "
        "no record that a seek() has gone back from; confluent-kafka also commits records that the program "
        "may still be handling, and does so at close(), too",
        "callbacks": "poll() and consume() raise the exception of a callback, after at most 0.2 s, and the "
        "next call returns the records of this call; confluent-kafka drops these records. close() in a "
        "callback waits for the end of the call; confluent-kafka's close() may hang there",
        "replaced_logs": "at each assignment and every five minutes, a separate thread asks the broker "
        "whether a topic was deleted and recreated, and logs that. The metadata of commits identify the "
        "topic; committed() leaves them out. With contiguous=True or a mirror, auto.offset.reset decides "
        "where a recreated partition is read; confluent-kafka continues in the middle of the new log",
        "settings": "on Event Hubs, the consumer adds settings that the service needs, and refuses settings "
        "that the service does not support; confluent-kafka passes all settings on",
    }
)


class Deviating:
    """Which deviations of one consumer were logged."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self._reported: set[Deviation] = set()

    def report(self, name: Deviation) -> None:
        """Log it, the first time."""
        if name not in self._reported:
            self._reported.add(name)
            self._emit(DropInDeviated(name, DEVIATIONS[name]))


class ConsumerLog:
    """Logs the events of one consumer under `ehkafka.consumer`, repeated warnings thinned. Any thread."""

    def __init__(self) -> None:
        # Re-entrant: a log handler of the program may commit.
        self._lock = threading.RLock()
        self._lines = LogLines(logging.getLogger("ehkafka.consumer"), time.monotonic)

    def emit(self, event: Event) -> None:
        """Log an event at its level. Never raises: no commit must fail over a log line."""
        with self._lock:
            try:
                self._lines.write(event)
            except Exception:  # a filter of the program's logging
                traceback.print_exc()

    def close(self) -> None:
        """Log what was held back."""
        with self._lock:
            self._lines.write_owed(everything=True)
