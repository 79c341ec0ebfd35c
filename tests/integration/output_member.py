"""A member of the group that `output_checker` judges, as a program; each record says what becomes of it.

An input is `number action milliseconds`, numbered within its key. An output is `partition offset number
place`: its record, and its place among the outputs of that. SIGTERM stops the member; it ends, too, with its
standard input.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import sys
import threading
import time
from functools import cache
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer

import ehkafka
from ehkafka.testing import JsonLinesHistory

if TYPE_CHECKING:
    from collections.abc import Sequence

GROUP, INPUT, OUTPUT, DEAD = "checked", "in", "out", "dead"
# The environment has a member's options, so that its worker processes have them, too.
OPTIONS = "OUTPUT_MEMBER"
# The place of an output of an attempt that then fails or skips; no reader may see it.
IN_VAIN = 9
LARGE_BYTES = 300_000
# An action: the places of the outputs that it must have, and how many dead letters.
ACTIONS: dict[str, tuple[tuple[int, ...], int]] = {
    "one": ((0,), 0),
    "two": ((0, 1), 0),
    "none": ((), 0),
    # Its first attempt fails.
    "again": ((0,), 0),
    "skip": ((), 0),
    # All its attempts fail.
    "doomed": ((), 1),
    # Its only output, or its second one, is too large for the topic.
    "large": ((), 1),
    "both": ((), 1),
}
# How a broken member breaks the promises, for one record of a key in ten: it leaves an output out, sends two
# in the wrong order, or one twice, or after the commit.
BROKEN = ("lose", "swap", "twice", "early")
BROKEN_NUMBER = 7
LATE_S = 1.5


@cache
def options() -> dict[str, Any]:
    """Return what the checker has asked for."""
    found: dict[str, Any] = json.loads(os.environ[OPTIONS])
    return found


def main() -> int:
    """Run until a signal comes."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(threadName)s %(levelname)s %(message)s")
    threading.Thread(target=end_with_parent, name="parent-watch", daemon=True).start()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--history", required=True)
    parser.add_argument("--options", required=True, help="as JSON")
    asked = parser.parse_args()
    os.environ[OPTIONS] = asked.options
    with JsonLinesHistory(asked.history) as history:
        try:
            make_app(history).run()
        except ehkafka.EhkafkaError as error:
            logging.getLogger("member").exception("ended by an error")
            return error.exit_code
    return 0


def make_app(history: JsonLinesHistory) -> ehkafka.App:
    """Build the app with a handler of the kind that is asked for."""
    asked = options()
    endpoint = ehkafka.Endpoint.kafka(asked["bootstrap"])
    app = ehkafka.App(group=GROUP, endpoint=endpoint, start="earliest", history=history, **asked["settings"])
    rules = {
        "to": OUTPUT,
        "retry": ehkafka.Retry(attempts=3, first_s=0.05),
        "on_failure": ehkafka.DeadLetter(DEAD),
        "workers": asked["workers"],
    }
    if asked["kind"] == "batches":
        app.batch_handler(INPUT, batch_records_max=50, wait_s_max=0.05, **rules)(handle_batch)
    elif asked["kind"] == "tasks":
        app.handler(INPUT, **rules)(handle_in_task)
    else:
        if asked["kind"] == "processes":
            rules["workers"] = ehkafka.Processes(asked["workers"])
        app.handler(INPUT, **rules)(handle)
    return app


def handle(record: ehkafka.Record) -> bytes | None:
    """Handle a record on a thread or in a process."""
    time.sleep(duration_s(record))
    return last_of(record, outputs_of(record))


async def handle_in_task(record: ehkafka.Record) -> bytes | None:
    """Handle a record in a task."""
    await asyncio.sleep(duration_s(record))
    return last_of(record, outputs_of(record))


def handle_batch(batch: ehkafka.Batch) -> None:
    """Handle many records, each of which has its own result."""
    time.sleep(max(map(duration_s, batch)))
    failed = set()
    for record in batch:
        if record.key() in failed and not options()["strict"]:
            # It is handled again behind the failed one, and what it sends now may be seen before.
            continue
        try:
            outputs = outputs_of(record)
        except ehkafka.SkipRecord as reason:
            batch.skip(record, str(reason))
        except ValueError as error:
            batch.fail(record, error)
            failed.add(record.key())
        else:
            for output in outputs:
                send(record, output)


def last_of(record: ehkafka.Record, outputs: Sequence[bytes]) -> bytes | None:
    """Send all outputs but the last one, which is returned."""
    for output in outputs[:-1]:
        send(record, output)
    return outputs[-1] if outputs else None


def send(record: ehkafka.Record, output: bytes) -> None:
    """Send an output; some have headers."""
    record.send(output, headers={"from": "checked"} if record.offset() % 3 else None)


def duration_s(record: ehkafka.Record) -> float:
    """Return how long a record says that its call takes."""
    return int((record.value() or b"").split()[2]) / 1000


def outputs_of(record: ehkafka.Record) -> Sequence[bytes]:
    """Return the outputs of a record, or raise what it says."""
    number, action, _ = (record.value() or b"").split()
    name = action.decode()
    fails = name == "doomed" or (name == "again" and record.attempt == 1)
    if options()["strict"] and (fails or name == "skip"):
        record.send(output_of(record, number, IN_VAIN))
    if fails:
        raise ValueError(f"number {int(number)} is to fail")
    if name == "skip":
        raise ehkafka.SkipRecord("it says so")
    if name in {"large", "both"}:
        large = output_of(record, number, 1) + b" " + bytes(LARGE_BYTES)
        return [output_of(record, number, 0), large] if name == "both" else [large]
    outputs = [output_of(record, number, place) for place in ACTIONS[name][0]]
    is_broken = int(number) % 10 == BROKEN_NUMBER
    return broken(record, outputs) if is_broken and options()["broken"] else outputs


def output_of(record: ehkafka.Record, number: bytes, place: int) -> bytes:
    """Return an output, which names its record."""
    return b"%d %d %b %d" % (record.partition(), record.offset(), number, place)


def broken(record: ehkafka.Record, outputs: list[bytes]) -> list[bytes]:
    """Return what a member sends that breaks a promise."""
    ways: list[str] = options()["broken"]
    way = ways[record.offset() % len(ways)]
    if way == "lose":
        return []
    if way == "swap":
        return outputs[::-1]
    if way == "twice":
        return outputs * 2
    for output in outputs:
        threading.Timer(LATE_S, send_late, (record.key(), output)).start()
    return []


def send_late(key: bytes, output: bytes) -> None:
    """Send an output by a producer of its own, which no commit waits for."""
    foreign_producer().produce(OUTPUT, output, key)
    foreign_producer().flush(30)


@cache
def foreign_producer() -> Producer:
    """Return a producer that the app does not know."""
    return Producer({"bootstrap.servers": options()["bootstrap"], "partitioner": "murmur2_random"})


def end_with_parent() -> None:
    """End at once when the checker is gone: its end of the pipe closes."""
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os._exit(99)


if __name__ == "__main__":
    sys.exit(main())
