"""A member of a consumer group as a program: one ehkafka app over one topic, with a history on disk.

Started by `tests.kit.processes.MemberProcess`. SIGTERM stops it; it ends as well when its standard input
does. The exit code is the app's: 0, or that of the error which ended it, or 130 like that of `ehkafka run`
when SIGTERM came while the broker was still waited for.

    python member.py --history h.jsonl --bootstrap 127.0.0.1:9092 --group g --topic t --handler-ms 0-5

Handlers of another kind are those of a module: with `--handlers tests.faults.soak_handlers` its
`add_handlers(app)` registers them. Worker processes have the same command line, so `options` reads it there.
Members under a supervisor (`supervised_app`) have it in their environment, as JSON.
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
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ehkafka
from ehkafka.checkpoints.store_mirror import StoreMirror
from ehkafka.checkpoints.stores.file import FileStore
from ehkafka.progress import saving
from tests.kit.checker.history_file import JsonLinesHistory
from tests.kit.inside import with_history
from tests.kit.processes import ARGUMENTS

if TYPE_CHECKING:
    from ehkafka.events.history import History

INTERRUPTED = 130


def main() -> int:
    """Run until a signal comes."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(threadName)s %(levelname)s %(message)s")
    threading.Thread(target=end_with_parent, name="parent-watch", daemon=True).start()
    for hook in options().hook:
        importlib.import_module("tests.integration.exactly_once_hooks").install(*hook.split("=", 1))
    with ExitStack() as stack:
        path = Path(options().history)
        history = None if options().no_history else stack.enter_context(JsonLinesHistory(path))
        app = make_app(history)
        if options().no_history:
            app.on_start(lambda: path.write_text("up") and None)
        if options().handlers is None:
            add_handlers(app)
        else:
            importlib.import_module(options().handlers).add_handlers(app)
        try:
            app.run()
        except ehkafka.EhkafkaError as error:
            logging.getLogger("member").exception("ended by an error")
            return error.exit_code
        except KeyboardInterrupt:
            return INTERRUPTED
    return 0


def make_app(history: History | None) -> ehkafka.App:
    """Build the app from the command line."""
    asked = options()
    saving.KAFKA_METADATA_BYTES_MAX = asked.metadata_bytes
    settings: dict[str, Any] = {
        name: json.loads(value) for name, value in (pair.split("=", 1) for pair in asked.setting)
    }
    app = ehkafka.App(
        group=asked.group,
        endpoint=ehkafka.Endpoint.kafka(asked.bootstrap),
        start=asked.start,
        instance_id=asked.instance_id,
        assignor=asked.assignor,
        mirror=mirror(asked),
        consumer=dict(pair.split("=", 1) for pair in asked.consumer),
        **settings,
    )
    return with_history(app, history)


def add_handlers(app: ehkafka.App) -> None:
    """Register a handler that takes its time, and names its record in an output where there is a topic."""
    asked = options()
    least_ms, most_ms = asked.handler_ms

    def handle(record: ehkafka.Record) -> None:
        if record.offset() == asked.stuck:
            threading.Event().wait()
        time.sleep(random.uniform(least_ms, most_ms) / 1000)

    def send(record: ehkafka.Record) -> bytes:
        handle(record)
        return b"%d:%d" % (record.partition(), record.offset())

    if asked.to is None:
        app.handler(asked.topic, workers=asked.workers)(handle)
    else:
        dead = ehkafka.DeadLetter(asked.dead)
        app.handler(asked.topic, workers=asked.workers, to=asked.to, on_failure=dead)(send)


def mirror(asked: argparse.Namespace) -> Any:
    """Return the mirror that the command line names."""
    where: dict[str, Any] = {"interval_s": 0.2, "namespace": "ns"}
    if asked.mirror is not None:
        return StoreMirror(store=FileStore(asked.mirror), **where)
    if asked.container is not None:
        return ehkafka.BlobMirror.connection_string(Path(asked.storage), asked.container, **where)
    return None


@cache
def options() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    for name in ("history", "bootstrap", "group", "topic"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--no-history", action="store_true", help="its file gets a word once it has started")
    parser.add_argument("--start", default="earliest")
    parser.add_argument("--instance-id")
    parser.add_argument("--assignor", default="default")
    parser.add_argument("--handler-ms", type=least_and_most, default=(0.0, 0.0), metavar="LEAST-MOST")
    parser.add_argument("--stuck", type=int, help="an offset whose handler never returns")
    parser.add_argument("--mirror", help="a folder to mirror the commits in")
    parser.add_argument("--container", help="mirror the commits there")
    parser.add_argument("--storage", help="a file with the storage account's connection string")
    parser.add_argument("--to", help="send an output of each record to this topic")
    parser.add_argument("--dead", help="where the records of refused outputs go")
    parser.add_argument(
        "--hook", action="append", default=[], metavar="NAME=FOLDER", help="changes its engine"
    )
    parser.add_argument("--handlers", metavar="MODULE", help="has `add_handlers`")
    parser.add_argument("--own", action="append", default=[], metavar="NAME=TEXT", help="options of its")
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--consumer", action="append", default=[], metavar="PROPERTY=VALUE")
    parser.add_argument("--metadata-bytes", type=int, default=saving.KAFKA_METADATA_BYTES_MAX)
    parser.add_argument("--setting", action="append", default=[], metavar="NAME=JSON")
    return parser.parse_args(json.loads(os.environ[ARGUMENTS]) if ARGUMENTS in os.environ else None)


@cache
def own(name: str) -> str:
    """Return an option of the handlers."""
    given: dict[str, str] = dict(pair.split("=", 1) for pair in options().own)
    return given[name]


def least_and_most(text: str) -> tuple[float, float]:
    """Read `LEAST-MOST`."""
    least, _, most = text.partition("-")
    return float(least), float(most or least)


def end_with_parent() -> None:
    """End at once when the process that started this one is gone: its end of the pipe closes."""
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os._exit(99)


if __name__ == "__main__":
    sys.exit(main())
