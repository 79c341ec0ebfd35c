"""The stream reader for PySpark 4.0 and 4.1, which tell neither the start nor a limit.

The start is remembered from what Spark plans; at a restart it plans an empty range first, which tells it.
The limit is our own. Trigger.AvailableNow asks for the end once and reads up to it in one batch: with a limit
it ends there, with records left, which `LastWord` reports. A batch that the limit has cut carries where the
logs ended, because the query's progress has no other place for it. One thread, the process's own.
"""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ehkafka.spark.one_line import reported_in_one_line
from ehkafka.spark.source.offsets import StreamOffset
from ehkafka.spark.source.readers import StreamReaderParts
from ehkafka.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.datasource import InputPartition


class EarlyStreamReader(StreamReaderParts):
    """Reads a stream where `latestOffset` has no arguments."""

    # Whether the query may have ended too early for its user: the trigger of a plain one is not known.
    is_plain = True
    _planned_end: dict[str, Any] | None = None

    @cached_property
    def _last_word(self) -> LastWord:
        return LastWord()

    @reported_in_one_line()
    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802
        """Return the end of the next batch, by the option maxOffsetsPerTrigger."""
        start = self.initialOffset() if self._planned_end is None else self._planned_end
        end = self.batch_end(start, self.options.limit_records)
        # An idle query's offset stays the very text that Spark has: another one would be a batch.
        return end if end == start else self._stream.with_ends(end)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of a batch, and remember its end: the next one begins there."""
        self._planned_end = end
        if self.is_plain and start != end:
            self._last_word.note(end)
        return super().partitions(start, end)

    def stop(self) -> None:
        """Close what the driver opened; nothing is reported after an error."""
        self._last_word.forget()
        super().stop()


class LastWord:
    """What one run of a query has left unread, reported at its end.

    Nothing tells a source which trigger it runs under. At a query's end Spark calls nothing of a source: it
    sends SIGTERM to the process that plans, which is the query's own.
    """

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
            "left. Before PySpark 4.2, the trigger AvailableNow reads only one batch. To read until nothing "
            "is left, call ehkafka.spark.start(writer) instead of writer.start()."
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
