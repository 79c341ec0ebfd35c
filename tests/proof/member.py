"""A member of a level's group with an app of ehkafka, as a program; each record says what becomes of it.

SIGTERM stops the member; it ends, too, with its standard input.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from typing import TYPE_CHECKING

import ehkafka
from ehkafka.errors import ActionRefusedError
from ehkafka.progress import saving
from tests.kit.inside import with_history
from tests.proof.program import asked_by, main, options, output_of, outputs_at
from tests.proof.work import (
    ACTIONS,
    CODES,
    IN_VAIN,
    dead_topic,
    group_of,
    input_topic,
    output_topic,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.kit.checker.history_file import JsonLinesHistory

ATTEMPTS = 3
# So long a key is on hold before a command lets it go on; between two checks.
HELD_S, PAUSE_S = 0.5, 0.25
# How often the app is asked whether it lives, as a probe does.
PROBE_S = 2.0
LATER_S = 0.3
# Records that were put off once. Threads add and take; no two have one record at once.
put_off: set[tuple[int, int]] = set()


def run(history: JsonLinesHistory) -> int:
    """Run until a signal comes."""
    app = make_app(history)
    for task in (release, probe):
        threading.Thread(target=task, args=(app,), name=task.__name__, daemon=True).start()
    try:
        app.run()
    except ehkafka.EhkafkaError as error:
        logging.getLogger("member").exception("ended by an error")
        return error.exit_code
    return 0


def make_app(history: JsonLinesHistory) -> ehkafka.App:
    """Build the app with a handler of the kind that is asked for."""
    asked = options()
    if asked["metadata_bytes"] is not None:
        saving.KAFKA_METADATA_BYTES_MAX = asked["metadata_bytes"]
    endpoint, level = ehkafka.Endpoint.kafka(asked["bootstrap"]), asked["level"]
    app = ehkafka.App(group=group_of(level), endpoint=endpoint, start="earliest", **asked["settings"])
    with_history(app, history)
    app.on_error(keep)
    rules = {
        "to": output_topic(level),
        "retry": ehkafka.Retry(attempts=ATTEMPTS, first_s=0.05),
        "on_failure": ehkafka.DeadLetter(dead_topic(level)),
        "workers": asked["workers"],
    }
    if asked["kind"] == "batches":
        app.batch_handler(input_topic(level), batch_records_max=50, wait_s_max=0.05, **rules)(handle_batch)
    elif asked["kind"] == "tasks":
        app.handler(input_topic(level), **rules)(handle_in_task)
    else:
        if asked["kind"] == "processes":
            rules["workers"] = ehkafka.Processes(asked["workers"])
        app.handler(input_topic(level), **rules)(handle)
    return app


def keep(_kind: str, _partition: object, record: ehkafka.Record | None, _error: object) -> str | None:
    """Answer what becomes of a record whose attempts have all failed: one that says so goes on hold."""
    return "continue" if record is not None and asked_by(record).action == "held" else None


def release(app: ehkafka.App) -> None:
    """Let keys go on that are on hold, by the command that an operator would give."""
    while True:
        time.sleep(PAUSE_S)
        try:
            for key in app.keys.waiting():
                if key.status == "waiting: on hold" and key.age_s > HELD_S:
                    app.keys.retry(key.name)
        except ActionRefusedError:
            logging.getLogger("member").info("a key has gone on by itself, or the app does not run")


def probe(app: ehkafka.App) -> None:
    """Say why the app is not live, which `/live` says to a probe."""
    while True:
        time.sleep(PROBE_S)
        for reason in app.current_run.not_live():
            logging.getLogger("member").warning("not live: %s", reason)


def handle(record: ehkafka.Record) -> bytes | None:
    """Handle a record on a thread or in a process."""
    begin_ns = time.monotonic_ns()
    time.sleep(asked_by(record).duration_s)
    return last_of(record, outputs_of(record, begin_ns))


async def handle_in_task(record: ehkafka.Record) -> bytes | None:
    """Handle a record in a task."""
    begin_ns = time.monotonic_ns()
    await asyncio.sleep(asked_by(record).duration_s)
    return last_of(record, outputs_of(record, begin_ns))


def handle_batch(batch: ehkafka.Batch) -> None:
    """Handle many records, each of which has its own result. They have begun together."""
    begin_ns = time.monotonic_ns()
    time.sleep(max(asked_by(record).duration_s for record in batch))
    failed = set()
    for record in batch:
        if record.key() in failed and not options()["strict"]:
            # It is handled again behind the failed one, and what it sends now may be seen before.
            continue
        try:
            outputs = outputs_of(record, begin_ns)
        except ehkafka.SkipRecord as reason:
            batch.skip(record, str(reason))
        except (ValueError, ehkafka.RetryLater) as error:
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
    record.send(output, headers={"from": "proof"} if record.offset() % 3 else None)


def outputs_of(record: ehkafka.Record, begin_ns: int) -> Sequence[bytes]:
    """Return the outputs of a record, or raise what it says."""
    name, place = asked_by(record).action, (record.partition(), record.offset())
    first_fails = name == "again" and record.attempt == 1
    fails = name == "doomed" or first_fails or (name == "held" and record.attempt <= ATTEMPTS)
    is_put_off = name == "later" and place not in put_off
    if options()["strict"] and (fails or is_put_off or name == "skip"):
        record.send(output_of(record, IN_VAIN, begin_ns))
    if fails:
        raise ValueError(f"{place} is to fail")
    if is_put_off:
        put_off.add(place)
        raise ehkafka.RetryLater(after_s=LATER_S)
    put_off.discard(place)
    if name == "skip":
        raise ehkafka.SkipRecord("it says so")
    places = {"large": (0,), "both": (0, 1)}.get(name, ACTIONS[CODES[name]].places)
    return outputs_at(record, places, begin_ns)


if __name__ == "__main__":
    sys.exit(main(__doc__, run))
