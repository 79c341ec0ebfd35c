"""The soak's handlers, of one kind of worker, with retries and dead letters, for `tests.kit.member`.

Each record takes 0 to 10 ms; some fail at their first attempt, some for good and go to `TOPIC.dead` at once.
One key in twenty fails all the time, until there is a file: each of its records is tried again for a
second and goes to `TOPIC.dead`, while the key's next ones wait; where too many wait, the largest key's go at
once.
"""

from __future__ import annotations

import asyncio
import os
import random
import time

import ehkafka
from tests.kit.member import options, own

HANDLER_S_MAX = 0.01
FAILING_EVERY = 20


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
    if is_failing(record.key() or b"") and not os.path.exists(own("fixed")):  # noqa: PTH110 - a call a record
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


def add_handlers(app: ehkafka.App) -> None:
    """Register the handler for a kind of worker."""
    kind, topic = own("kind"), options().topic
    failing = {
        # Less time than the busiest failing key takes for its next record (1.5 s): its queue must not grow.
        "retry": ehkafka.Retry(attempts=6, first_s=0.1, max_s=0.2, give_up_on=PoisonError),
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
