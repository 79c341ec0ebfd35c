"""A member of a consumer group as a program: one ehkafka app over one topic, with a history on disk.

Started by `tests.kit.processes.MemberProcess`. SIGTERM stops it; it leaves as well when its standard
input ends. The exit code is the app's: 0, or that of the error which ended it, or 130 like that of
`ehkafka run` when SIGTERM came while the broker was still waited for.

    python member.py --history h.jsonl --bootstrap 127.0.0.1:9092 --group g --topic t --handler-ms 0-5
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import os
import random
import sys
import threading
import time
from pathlib import Path

import ehkafka
from ehkafka.progress import saving
from ehkafka.testing import JsonLinesHistory

INTERRUPTED = 130


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
    saving.KAFKA_METADATA_BYTES_MAX = options.metadata_bytes
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

    def handle(record: ehkafka.Record) -> None:
        if record.offset() == options.stuck:
            threading.Event().wait()
        time.sleep(random.uniform(least_ms, most_ms) / 1000)

    def send(record: ehkafka.Record) -> bytes:
        """Handle it, and name it in an output."""
        handle(record)
        return b"%d:%d" % (record.partition(), record.offset())

    if options.to is None:
        app.handler(options.topic, workers=options.workers)(handle)
    else:
        dead = ehkafka.DeadLetter(options.dead)
        app.handler(options.topic, workers=options.workers, to=options.to, on_failure=dead)(send)
    return app


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
    parser.add_argument(
        "--hook", action="append", default=[], metavar="NAME=FOLDER", help="changes its engine"
    )
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--consumer", action="append", default=[], metavar="PROPERTY=VALUE")
    parser.add_argument("--metadata-bytes", type=int, default=saving.KAFKA_METADATA_BYTES_MAX)
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
