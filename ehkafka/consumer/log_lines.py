"""How a drop-in consumer tells of itself: log lines, on the thread where something happens.

An app's telemetry has a thread for that; a program that changed an import expects none. The lock may be
held while a log handler runs, so nobody else's lock may be taken in one that logs through this room.
"""

from __future__ import annotations

import logging
import threading
import time
import traceback
from typing import TYPE_CHECKING

from ehkafka.telemetry.log_lines import LogLines

if TYPE_CHECKING:
    from ehkafka.events import Event


class ConsumerLog:
    """Logs the events of one consumer under `ehkafka.consumer`, repeated warnings thinned. Any thread."""

    def __init__(self) -> None:
        # Re-entrant: a log handler of the program may commit.
        self._lock = threading.RLock()
        self._lines = LogLines(logging.getLogger("ehkafka.consumer"), time.monotonic)

    def emit(self, event: Event) -> None:
        """Log an event at its level. Never raises: whoever commits must not fail over a log line."""
        with self._lock:
            try:
                self._lines.write(event)
            except Exception:  # a filter of the program's logging
                traceback.print_exc()

    def close(self) -> None:
        """Log what was held back."""
        with self._lock:
            self._lines.write_owed(everything=True)
