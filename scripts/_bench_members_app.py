"""A member of W16's group: an app for `ehkafka run`, or by `python _bench_members_app.py` a bare consumer.

What it does says `BENCH_MEMBER` in the environment, a JSON object. Each member writes what it has finished
into a file of its own, a line each 20 ms, so that nothing has to be asked while it works.
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
from _bench_members import OPTIONS_NAME
from _bench_window import SAMPLE_S

if TYPE_CHECKING:
    from collections.abc import Callable

    import ehkafka


def report(finished: Callable[[], int], partitions: Callable[[], int]) -> None:
    """Write time, finished records and partitions, again and again, until the process ends."""
    path = Path(OPTIONS["folder"]) / f"{os.getpid()}.samples"

    def write() -> None:
        with path.open("w", buffering=1) as lines:
            while True:
                lines.write(f"{time.monotonic():.6f} {finished()} {partitions()}\n")
                time.sleep(SAMPLE_S)

    threading.Thread(target=write, daemon=True).start()


def make_member() -> ehkafka.App:
    """Return the app; it reports from its start on, in each member."""
    made = make_app(
        OPTIONS["bootstrap"],
        OPTIONS["topic"],
        handler(OPTIONS["work"]),
        group=OPTIONS["group"],
        express=OPTIONS["express"],
    )

    @made.on_start
    def _report() -> None:
        runtime = made._runtime  # noqa: SLF001 - a snapshot would be measured too
        report(lambda: runtime.totals()["finished_records"], lambda: len(runtime.context.owned))

    return made


def run_bare() -> None:
    """Read and call the handler until the process is ended; nothing is committed."""
    consumer = _bench_bare.bare_consumer(OPTIONS["bootstrap"], OPTIONS["topic"], group=OPTIONS["group"])
    handle = handler(OPTIONS["work"])
    handled = 0
    report(lambda: handled, lambda: len(consumer.assignment()))
    while True:
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
