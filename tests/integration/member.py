"""A member of a consumer group as a program: one ehkafka app over one topic, with a history on disk.

Started by `tests.kit.processes.MemberProcess`. SIGTERM stops it; it leaves as well when its standard
input ends. The exit code is the app's: 0, or that of the error which ended it, or 130 like that of
`ehkafka run` when SIGTERM came while the broker was still waited for.

    python member.py --history h.jsonl --bootstrap 127.0.0.1:9092 --group g --topic t --handler-ms 0-5
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import logging
import os
import random
import sys
import threading
import time
import zlib
from dataclasses import dataclass
from pathlib import Path

import ehkafka
from ehkafka.testing import JsonLinesHistory

INTERRUPTED = 130
KINDS = ("threads", "tasks", "batches", "processes")
# Above what the tests' output topic takes, below what its producer does.
LARGE_BYTES = 300_000
# One key in so many is slow, where slow ones are asked for.
SLOW_KEYS = 5


def main() -> int:
    """Run until a signal comes."""
    options = parse()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(threadName)s %(levelname)s %(message)s")
    threading.Thread(target=leave_with_parent, name="parent-watch", daemon=True).start()
    for hook in options.hook:
        # A module beside this one, which is no part of a package here.
        importlib.import_module("exactly_once_hooks").install(*hook.split("=", 1))
    with JsonLinesHistory(options.history) as history:
        app = make_app(options, history)
        try:
            app.run()
        except ehkafka.EhkafkaError as error:
            logging.getLogger("member").exception("ended by an error")
            return error.exit_code
        except KeyboardInterrupt:
            return INTERRUPTED
    return 0


def make_app(options: argparse.Namespace, history: JsonLinesHistory) -> ehkafka.App:
    """Build the app from the command line."""
    app = ehkafka.App(
        group=options.group,
        endpoint=ehkafka.Endpoint.kafka(options.bootstrap),
        start=options.start,
        history=history,
        instance_id=options.instance_id,
        assignor=options.assignor,
        mirror=mirror(options),
        consumer=dict(pair.split("=", 1) for pair in options.consumer),
        **{name: json.loads(value) for name, value in (pair.split("=", 1) for pair in options.setting)},
    )
    least_ms, most_ms = options.handler_ms
    if options.to is not None:
        register_sender(app, options)
        return app

    @app.handler(options.topic, workers=options.workers)
    def handle(record: ehkafka.Record) -> None:
        if record.offset() == options.stuck:
            threading.Event().wait()
        time.sleep(random.uniform(least_ms, most_ms) / 1000)

    return app


def register_sender(app: ehkafka.App, options: argparse.Namespace) -> None:
    """Register a handler whose outputs name their records, on the kind of workers that is asked for."""
    sends = Sends(*options.handler_ms, options.large_every, options.slow_ms, options.stuck)
    rules = {
        "to": options.to,
        "retry": ehkafka.Retry(attempts=3, first_s=0.05),
        "on_failure": ehkafka.DeadLetter(options.dead),
    }
    if options.kind == "batches":
        app.batch_handler(
            options.topic, workers=options.workers, batch_records_max=50, wait_s_max=0.05, **rules
        )(sends.of_batch)
    elif options.kind == "tasks":
        app.handler(options.topic, workers=options.workers, **rules)(sends.of_task)
    else:
        processes = options.kind == "processes"
        workers = ehkafka.Processes(options.workers) if processes else options.workers
        app.handler(options.topic, workers=workers, **rules)(sends)


@dataclass(frozen=True)
class Sends:
    """Handlers whose output names its record; one in so many is too large for its topic.

    A fifth of the keys takes `slow_ms` longer, and so does a batch whose first record has such a key. The
    call for the `stuck` offset never returns.
    """

    least_ms: float
    most_ms: float
    large_every: int
    slow_ms: float = 0.0
    stuck: int | None = None

    def __call__(self, record: ehkafka.Record) -> bytes:
        """Handle a record."""
        if record.offset() == self.stuck:
            threading.Event().wait()
        time.sleep(self._duration_s(record))
        return self._output(record)

    async def of_task(self, record: ehkafka.Record) -> bytes:
        """Handle a record in a task."""
        await asyncio.sleep(self._duration_s(record))
        return self._output(record)

    def of_batch(self, batch: ehkafka.Batch) -> None:
        """Handle many records."""
        time.sleep(self._duration_s(batch[0]))
        for record in batch:
            record.send(self._output(record))

    def _duration_s(self, record: ehkafka.Record) -> float:
        is_slow = self.slow_ms > 0 and zlib.crc32(record.key() or b"") % SLOW_KEYS == 0
        return random.uniform(self.least_ms, self.most_ms) / 1000 + is_slow * self.slow_ms / 1000

    def _output(self, record: ehkafka.Record) -> bytes:
        offset = record.offset()
        too_large = self.large_every and offset % self.large_every == self.large_every // 2
        return b"%d:%d" % (record.partition(), offset) + (os.urandom(LARGE_BYTES) if too_large else b"")


def mirror(options: argparse.Namespace) -> ehkafka.BlobMirror | None:
    """Return the mirror that the command line names."""
    if options.container is None:
        return None
    return ehkafka.BlobMirror.connection_string(
        Path(options.storage), options.container, interval_s=0.2, namespace="ns"
    )


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    for name in ("history", "bootstrap", "group", "topic"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--start", default="earliest")
    parser.add_argument("--instance-id")
    parser.add_argument("--assignor", default="default")
    parser.add_argument("--handler-ms", type=least_and_most, default=(0.0, 0.0), metavar="LEAST-MOST")
    parser.add_argument("--stuck", type=int, help="an offset whose handler never returns")
    parser.add_argument("--container", help="mirror the commits there")
    parser.add_argument("--storage", help="a file with the storage account's connection string")
    parser.add_argument("--to", help="send an output of each record to this topic")
    parser.add_argument("--dead", help="where the records of refused outputs go")
    parser.add_argument("--large-every", type=int, default=0, help="one output in so many is refused")
    parser.add_argument("--slow-ms", type=float, default=0.0, help="a fifth of the keys takes longer")
    parser.add_argument(
        "--hook", action="append", default=[], metavar="NAME=FOLDER", help="changes its engine"
    )
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--kind", choices=KINDS, default=KINDS[0], help="the sending handler's workers")
    parser.add_argument("--consumer", action="append", default=[], metavar="PROPERTY=VALUE")
    parser.add_argument("--setting", action="append", default=[], metavar="NAME=JSON")
    return parser.parse_args()


def least_and_most(text: str) -> tuple[float, float]:
    """Read `LEAST-MOST`."""
    least, _, most = text.partition("-")
    return float(least), float(most or least)


def leave_with_parent() -> None:
    """Leave at once when whoever started this is gone: its end of the pipe closes."""
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os._exit(99)


if __name__ == "__main__":
    sys.exit(main())
