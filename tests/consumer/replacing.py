"""A program that puts the drop-ins into confluent-kafka's place, in one of several ways, and then runs.

    python replacing.py BOOTSTRAP TOPIC WHEN

`WHEN` is `early` (before any part of ehkafka that needs a client is loaded) or `late`. Reads ten records with
each class by confluent-kafka's own names, commits, and runs an app at the same time; prints what was handled.
Run by `test_replacing.py`; a watchdog prints all stacks where it stands still.
"""

from __future__ import annotations

import faulthandler
import sys
import threading
import time
from typing import Any

import confluent_kafka

import ehkafka

BOOTSTRAP, TOPIC, WHEN = sys.argv[1:]
LIMIT_S = 15.0
REAL = {name: getattr(confluent_kafka, name) for name in ("Consumer", "DeserializingConsumer", "Producer")}
MADE: list[str] = []


class Traced(REAL["Producer"]):  # type: ignore[misc]
    """What a tracing library puts into a producer's place; our own clients must not come by it."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        MADE.append("Producer")
        super().__init__(*arguments, **named)


class Foreign:
    """What a test double puts into the place of a value: nothing of it fits."""

    def __init__(self, *arguments: Any, **_named: Any) -> None:
        MADE.append(f"value {arguments}")


def replace() -> None:
    """Replace all that ehkafka has a counterpart of, and what others replace."""
    confluent_kafka.Consumer = ehkafka.Consumer  # type: ignore[misc]
    confluent_kafka.DeserializingConsumer = ehkafka.DeserializingConsumer  # type: ignore[misc]
    confluent_kafka.Producer = Traced  # type: ignore[misc]
    for name in ("TopicPartition", "Message"):
        setattr(confluent_kafka, name, Foreign)


def read(kind: Any, group: str) -> int:
    """Return how far a consumer of this kind has committed after ten records; close it."""
    properties = {
        "bootstrap.servers": BOOTSTRAP,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    assigned: list[Any] = []
    consumer = kind(properties | {"group.id": group, "session.timeout.ms": 6_000, "log_level": 0})
    consumer.subscribe([TOPIC], on_assign=lambda _consumer, partitions: assigned.extend(partitions))
    found: list[Any] = []
    while len(found) < 10:
        message = consumer.poll(0.1)
        if message is not None:
            found.append(message)
    consumer.commit(found[-1], asynchronous=False)
    consumer.seek(assigned[0])
    consumer.pause(assigned)
    consumer.resume(assigned)
    offset = consumer.committed(consumer.assignment())[0].offset
    consumer.close()
    return int(offset)


def run_app() -> int:
    """Return how many records an app has handled, one of them as a dead letter."""
    handled = 0
    app = ehkafka.App(
        group="app", endpoint=ehkafka.Endpoint.kafka(BOOTSTRAP), start="earliest",
        consumer={"session.timeout.ms": 6_000},
    )  # fmt: skip

    @app.handler(TOPIC, on_failure=ehkafka.DeadLetter(f"{TOPIC}.dead"))
    def handle(record: ehkafka.Record) -> None:
        nonlocal handled
        handled += 1
        if record.offset() == 3:
            raise ValueError("a dead letter")

    app.start()
    ends_s = time.monotonic() + LIMIT_S
    while handled < 100 and time.monotonic() < ends_s:
        time.sleep(0.01)
    app.stop()
    return handled


def main() -> None:
    """Replace, then use."""
    faulthandler.dump_traceback_later(3 * LIMIT_S, exit=True)
    if WHEN == "early":
        confluent_kafka.Producer = Traced  # type: ignore[misc]
        for name in ("TopicPartition", "Message", "Consumer"):
            setattr(confluent_kafka, name, Foreign)
    replace()
    for name in ("Consumer", "DeserializingConsumer"):
        sys.stdout.write(f"{name} {read(getattr(confluent_kafka, name), name)}\n")
    sys.stdout.write(f"App {run_app()}\n")
    sys.stdout.write(f"replaced ones made by us: {MADE}\n")
    # One that asks the broker notices the end of its run within a moment.
    threads = [one for one in threading.enumerate() if one is not threading.main_thread()]
    for one in threads:
        one.join(5.0)
    left = [one.name for one in threads if one.is_alive()]
    sys.stdout.write(f"threads left: {left}\n")


if __name__ == "__main__":
    main()
