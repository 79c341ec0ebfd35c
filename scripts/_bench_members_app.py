"""A member of W16's group: an app for `ehkafka run`, or by `python _bench_members_app.py` a bare consumer.

What it does says `BENCH_MEMBER` in the environment, a JSON object. Each member writes what it has finished
into a file of its own, a line each 20 ms, so that nothing has to be asked while it works. Until a file `go`
is there, too, it takes a millisecond more for each record: who comes first must not read the topic alone.
"""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import _bench_bare
from _bench_engine import make_app
from _bench_handlers import handler
from _bench_members import GO, OPTIONS_NAME
from _bench_window import SAMPLE_S

from ehkafka.run.observation import totals_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import ehkafka


class Gate:
    """What slows a handler down until all members have come together."""

    def __init__(self, handle: Callable[[Any], None]) -> None:
        self._handle = handle
        # Written by the thread that reports.
        self.is_open = False

    def handle(self, record: Any) -> None:
        """Handle a record, late while the gate is closed."""
        if not self.is_open:
            time.sleep(0.001)
        self._handle(record)


def report(gate: Gate, finished: Callable[[], int], partitions: Callable[[], int]) -> None:
    """Write time, finished records and partitions, and look for the file `go`, until the process ends."""
    folder = Path(OPTIONS["folder"])
    path = folder / f"{os.getpid()}.samples"

    def write() -> None:
        with path.open("w", buffering=1) as lines:
            while True:
                lines.write(f"{time.monotonic():.6f} {finished()} {partitions()}\n")
                gate.is_open = gate.is_open or (folder / GO).exists()
                time.sleep(SAMPLE_S)

    threading.Thread(target=write, daemon=True).start()


def make_member() -> ehkafka.App:
    """Return the app; it reports from its start on, in each member."""
    gate = Gate(handler(OPTIONS["work"]))
    made = make_app(
        OPTIONS["bootstrap"],
        OPTIONS["topic"],
        gate.handle,
        group=OPTIONS["group"],
    )

    @made.on_start
    def _report() -> None:
        runtime: Any = made.current_run  # a snapshot would be measured too
        report(gate, lambda: totals_of(runtime)["finished_records"], lambda: len(runtime.context.owned))

    return made


def run_bare() -> None:
    """Read and call the handler until the process is ended; nothing is committed."""
    consumer = _bench_bare.bare_consumer(OPTIONS["bootstrap"], OPTIONS["topic"], group=OPTIONS["group"])
    gate = Gate(handler(OPTIONS["work"]))
    handle, handled, partitions = gate.handle, 0, 0
    report(gate, lambda: handled, lambda: partitions)
    while True:
        if not gate.is_open:  # asked here: another thread would wait until `consume` is free
            partitions = len(consumer.assignment())
        messages: list[Any] = consumer.consume(_bench_bare.BATCH_RECORDS, 0) or consumer.consume(1, 0.05)
        for message in messages:
            message.key()
            message.offset()
            handle(message)
            handled += 1


OPTIONS: dict[str, Any] = json.loads(os.environ[OPTIONS_NAME])

if __name__ == "__main__":
    run_bare()
else:
    app = make_member()
