"""What a query on PySpark 4.0 or 4.1 has left unread when it ends after one batch, reported at its end.

Trigger.AvailableNow is one batch there, up to the limit, and ends without an error; nothing tells a source
which trigger it runs under. At a query's end Spark calls nothing of a source: it sends SIGTERM to the process
that plans. That process is the query's own, and all of this is on its one thread.
"""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from typing import Any

from ehkafka.spark.source.offsets import StreamOffset
from ehkafka.wording import counted


class LastWord:
    """Knows what one run of a query has planned."""

    def __init__(self) -> None:
        self._batches = 0
        self._end: dict[str, Any] = {}

    def note(self, end: dict[str, Any]) -> None:
        """Take the end of a batch that is planned; Spark may plan one more than once."""
        if end == self._end:
            return
        self._end = end
        self._batches += 1
        is_free = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        if is_free and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, lambda *_: self._say())

    def forget(self) -> None:
        """Leave the signal to the process again."""
        if self._batches and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def text(self) -> str:
        """Return what there is to report: of one batch that its limit has cut; else nothing."""
        if self._batches != 1:
            return ""
        end = StreamOffset.from_json(self._end)
        left = sum(at - end.positions[one] for one, at in end.ends.items())
        if not left:
            return ""
        return (
            f"The query ended after one batch, and {counted(left, 'offset')} up to the ends of the logs are "
            "left. If its trigger is AvailableNow: that is one batch before PySpark 4.2. "
            "ehkafka.spark.start(writer) continues until nothing is left; writer.start() does not."
        )

    def _say(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # Spark sends it twice
        if text := self.text():
            _write(f"WARNING ehkafka.spark: {text}\n".encode())
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)


def _write(line: bytes) -> None:
    """Write to the driver's stderr: with the signal, Java has closed its end of this process's own."""
    try:
        stderr = os.open(f"/proc/{os.getppid()}/fd/2", os.O_WRONLY | os.O_APPEND)
    except OSError:  # no Linux, or a socket
        stderr = 2
    with suppress(OSError):
        os.write(stderr, line)
