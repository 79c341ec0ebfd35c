"""A member of the soak as a program: one app of one kind of worker, with retries and dead letters.

    python soak_member.py --history h.jsonl --bootstrap HOST:PORT --group g --topic t --kind KIND --fixed FILE

Each record takes 0 to 10 ms; some fail at their first attempt, some for good and go to `TOPIC.dead` at once.
One key in twenty fails all the time, until FILE is there: each of its records is tried again for two seconds
and goes to `TOPIC.dead`, while the key's next ones wait; where too many wait, the largest key's go at once.
Started by `tests.kit.processes.MemberProcess`: SIGTERM stops it, and it leaves when its standard input ends.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import random
import sys
import threading
import time

import ehkafka
from ehkafka.testing import JsonLinesHistory

HANDLER_S_MAX = 0.01
FAILING_EVERY = 20
# Of the whole app, shared by its partitions: what the most frequent key gets while the broker restarts fits.
PARKED_RECORDS_MAX = 4_000
# Worker processes have it from the process that starts them.
FIXED = "EHKAFKA_SOAK_FIXED"
INTERRUPTED = 130


class PoisonError(ValueError):
    """No attempt can help."""


def is_poison(offset: int) -> bool:
    """Tell whether a record fails for good."""
    return offset % 500 == 7


def is_failing(key: bytes) -> bool:
    """Tell whether a key fails all the time."""
    return int(key.rpartition(b"-")[2]) % FAILING_EVERY == FAILING_EVERY - 1


def problem(record: ehkafka.Record) -> ValueError | None:
    """Return what is wrong with an attempt."""
    offset = record.offset()
    if is_poison(offset):
        return PoisonError("poison")
    if is_failing(record.key() or b"") and not os.path.exists(os.environ[FIXED]):  # noqa: PTH110 - a call a record
        return ValueError("this key fails all the time")
    return ValueError("not yet") if offset % 50 == 3 and record.attempt == 1 else None


def handle(record: ehkafka.Record) -> None:
    """Handle on a thread, or in a worker process."""
    time.sleep(random.uniform(0, HANDLER_S_MAX))
    if (error := problem(record)) is not None:
        raise error


async def handle_async(record: ehkafka.Record) -> None:
    """Handle on an event loop."""
    await asyncio.sleep(random.uniform(0, HANDLER_S_MAX))
    if (error := problem(record)) is not None:
        raise error


def handle_batch(batch: ehkafka.Batch) -> None:
    """Handle several; each that fails is named."""
    time.sleep(random.uniform(0, HANDLER_S_MAX))
    for record in batch:
        if (error := problem(record)) is not None:
            batch.fail(record, error)


def add_handler(app: ehkafka.App, kind: str, topic: str) -> None:
    """Register the handler for a kind of worker."""
    failing = {
        "retry": ehkafka.Retry(attempts=6, first_s=0.1, max_s=0.5, give_up_on=PoisonError),
        "on_failure": ehkafka.DeadLetter(f"{topic}.dead"),
    }
    if kind == "asyncio":
        app.handler(topic, workers=16, **failing)(handle_async)
    elif kind == "batches":
        app.batch_handler(topic, batch_records_max=20, wait_s_max=0.1, workers=4, **failing)(handle_batch)
    elif kind == "processes":
        app.handler(topic, workers=ehkafka.Processes(2), **failing)(handle)
    else:
        app.handler(topic, workers=16, **failing)(handle)


def main() -> int:
    """Run until a signal comes."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    for name in ("history", "bootstrap", "group", "topic", "kind", "fixed"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--consumer", action="append", default=[])
    options = parser.parse_args()
    os.environ[FIXED] = options.fixed
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(threadName)s %(levelname)s %(message)s")
    threading.Thread(target=leave_with_parent, name="parent-watch", daemon=True).start()
    with JsonLinesHistory(options.history) as history:
        app = ehkafka.App(
            group=options.group,
            endpoint=ehkafka.Endpoint.kafka(options.bootstrap),
            start="earliest",
            history=history,
            parked_records_max=PARKED_RECORDS_MAX,
            on_parked_full="dead_letter",
            consumer=dict(pair.split("=", 1) for pair in options.consumer),
        )
        add_handler(app, options.kind, options.topic)
        try:
            app.run()
        except ehkafka.EhkafkaError as error:
            logging.getLogger("member").exception("ended by an error")
            return error.exit_code
        except KeyboardInterrupt:
            return INTERRUPTED
    return 0


def leave_with_parent() -> None:
    """Leave at once when whoever started this is gone."""
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os._exit(99)


if __name__ == "__main__":
    sys.exit(main())
