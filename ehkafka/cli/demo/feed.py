"""Starts the simulator's process, hears its reports and holds it back.

Used by the session's thread; one thread of its own reads the reports. The embedded broker drops a
partition's oldest records beyond 5 MiB, read or not: the limits keep the unread far below that.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import orjson

from ehkafka import TopicPartition
from ehkafka.errors import EndpointError
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ehkafka.cli.demo.plan import DemoPlan
    from ehkafka.telemetry import Snapshot
    from ehkafka.testing import CheckingHistory

# Records per partition that may lie in the broker unread: at about 130 bytes each a twentieth of 5 MiB, and
# few enough that they are handled within a second or two. What the app has received is safe from the broker;
# it must not count here, or one slow home would hold back the readings of all others.
UNREAD_RECORDS_MAX: Final = 2_000
# Unfinished records, wherever they lie, above which the limits stay as they are. With the unread of all
# partitions on top this stays below the app's backlog limit: a demo that is paused all the time shows pauses.
UNFINISHED_RECORDS_MAX: Final = 12_000
SIMULATOR: Final = "ehkafka.cli.demo.simulator"
WORDS_KEPT: Final = 20


class Feed:
    """The simulator as the session sees it."""

    def __init__(self, plan: DemoPlan, first_offsets: Sequence[int], history: CheckingHistory) -> None:
        """`first_offsets` is where the log of each partition ended before this run."""
        self._plan = plan
        self._first_offsets = first_offsets
        self._history = history
        self._passed = [0] * len(first_offsets)
        self._process: subprocess.Popen[bytes] | None = None
        self._reader = threading.Thread(target=self._listen, name="demo-feed", daemon=True)
        # Written by the reader's thread only; each read is of one whole value.
        self.began_s: float | None = None
        self.stored_records = 0
        self.alarms = 0
        self.done = False
        self.error: str | None = None
        self._words: deque[str] = deque(maxlen=WORDS_KEPT)

    def start(self, seed: int = 0) -> None:
        """Start producing, up to the first limits."""
        orders = {
            # By stdin, for an address may come with credentials, and arguments are public.
            "properties": self._plan.endpoint.client_properties(),
            "topic": self._plan.topic,
            "partitions": len(self._first_offsets),
            "records": self._plan.records,
            "seed": seed,
        }
        self._process = subprocess.Popen(  # noqa: S603 - our own module in our own interpreter
            # -P: a file of the user's folder must not be imported in place of a module.
            [sys.executable, "-P", "-m", SIMULATOR],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # Ctrl-C is for the demo; it then tells the simulator to stop.
            start_new_session=True,
        )
        self._reader.start()
        self._report(orders)
        self._report({"limits": [UNREAD_RECORDS_MAX] * len(self._first_offsets)})

    def allow(self, snapshot: Snapshot) -> None:
        """Let the simulator go on as far as the app has come."""
        for one in snapshot.partitions:
            number = one.partition.partition
            # Both are at most what was read: the first counts from the start of an assignment only.
            below = 0 if one.watermark is None else one.watermark - self._first_offsets[number]
            self._passed[number] = max(self._passed[number], one.received_records, below)
        if self.stored_records - snapshot.finished_records > UNFINISHED_RECORDS_MAX:
            return
        self._report({"limits": [count + UNREAD_RECORDS_MAX for count in self._passed]})

    def stop(self) -> None:
        """Ask for no more readings; `done` is set when the last one is stored."""
        self._report({"stop": True})

    def close(self, timeout_s: float = 5.0) -> None:
        """End the process."""
        process = self._process
        if process is None:
            return
        assert process.stdin is not None
        # Broken when it ended before it read its last orders.
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._reader.join(timeout_s)
        assert process.stdout is not None
        process.stdout.close()

    def check(self) -> None:
        """Raise `EndpointError` when the simulator has failed."""
        if self.error is not None:
            raise EndpointError(
                f"The simulator could not produce to topic {self._plan.topic!r} on "
                f"{self._plan.address}: {ended(self.error)} Check the topic and the rights to produce to it."
            )

    def _report(self, order: Mapping[str, Any]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        # Broken when it is gone; the reader's thread says why.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(orjson.dumps(order) + b"\n")
            self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(b"{"):
                self._take(orjson.loads(line))
            else:
                self._words.append(line.decode(errors="replace").rstrip())
        if not self.done and self.error is None:
            self.error = "its process ended: " + (" / ".join(self._words) or "without a word")
        self.done = True

    def _take(self, report: Mapping[str, Any]) -> None:
        if self.began_s is None:
            # The first report comes with the first readings, before they are stored.
            self.began_s = time.monotonic()
        for partition, first, stop in report["stored"]:
            self._history.produced(TopicPartition(self._plan.topic, partition), range(first, stop))
            self.stored_records += stop - first
        self.alarms = report["alarms"]
        self.error = self.error or report["error"]
        self.done = self.done or report["done"]
