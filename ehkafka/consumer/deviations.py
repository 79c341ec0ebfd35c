"""What a drop-in consumer tells of itself, and where it does something else than confluent-kafka.

An app's telemetry has a thread for log lines; a program that changed an import expects none, so they are
written where something happens. The lock may be held while a log handler runs, so no other lock may be
taken in one that logs through this room. Each deviation is logged once, when it first matters; each has a
name under which `Consumer(as_confluent=…)` switches it off.
"""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Collection
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, get_args

from ehkafka.errors import ConfigurationError
from ehkafka.events.consumer import DropInDeviated
from ehkafka.telemetry.log_lines import LogLines

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ehkafka.events import Event

Deviation = Literal["bare_commit", "coalescing", "auto_commit", "callbacks", "replaced_logs", "settings"]

DEVIATIONS: Mapping[Deviation, str] = MappingProxyType(
    {
        "bare_commit": "commit() without arguments takes the positions at the call; confluent-kafka takes "
        "them later, when the next batch may have moved them past records that are not handled",
        "coalescing": "commits asked for while one is on its way share the next request, and asynchronous "
        "ones are at least 1 s apart on Event Hubs. Each is answered, on_commit in a later poll, consume or "
        "close; what waits is sent before a revoke and at close. confluent-kafka sends one request each",
        "auto_commit": "enable.auto.commit commits what a poll returned once a later poll has begun, and "
        "nothing that a seek went back from; confluent-kafka commits, at close too, what may still be in the "
        "hands of the program",
        "callbacks": "an exception in a callback comes out of poll() or consume(), after at most 0.2 s, and "
        "the records that were about to be returned are returned by the next call; confluent-kafka drops "
        "them. close() in a callback waits for the end of the call; confluent-kafka may hang",
        "replaced_logs": "whether a topic was deleted and recreated under its name is asked on a thread of "
        "its own, at an assignment and every five minutes, and logged. Commits carry what shows it as their "
        "metadata, which committed() leaves out. contiguous=True or a mirror begin such a partition anew, as "
        "auto.offset.reset=earliest or error says. confluent-kafka resumes in its middle",
        "settings": "on Event Hubs, settings that the service needs are added and those that it does not "
        "take are refused; confluent-kafka passes all of them on",
    }
)


class Deviating:
    """Which deviations one consumer has, and which of them were logged."""

    def __init__(self, as_confluent: Collection[Deviation], emit: Callable[[Event], None]) -> None:
        known = get_args(Deviation)
        given = [as_confluent] if isinstance(as_confluent, str) else as_confluent
        if not isinstance(given, Collection):
            raise ConfigurationError(
                f"Consumer: as_confluent is of type {type(given).__name__}; give a list of names, some of "
                f"{', '.join(known)}."
            )
        if unknown := [name for name in given if name not in known]:
            raise ConfigurationError(
                f"Consumer: as_confluent={unknown[0]!r} is unknown; use some of {', '.join(known)}."
            )
        self._off = frozenset(given)
        self._emit = emit
        self._reported: set[Deviation] = set()

    def has(self, name: Deviation) -> bool:
        """Tell whether the drop-in does this in its own way."""
        return name not in self._off

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
