"""Topics: filled before, or new for each measurement with a producer of their own that sends meanwhile."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, Producer, TopicPartition

from peers.plan import PARTITIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from peers.plan import Filled, Live

VALUE_BYTES = 200
# As one call hands them to the client.
TOGETHER = 10_000
FULL_S = 0.02
ANSWER_S = 120.0
SENDING = {"linger.ms": 20, "batch.num.messages": TOGETHER, "batch.size": 1_000_000}
PRODUCER = Path(__file__).with_name("producer.py")
STOP_S = 10.0


class FillError(Exception):
    """A topic was not filled."""


def fill(broker: Any, topic: Filled) -> None:
    """Create a topic and put the same records into it as in every run."""
    broker.create_topic(topic.name, PARTITIONS)
    producer = Producer({"bootstrap.servers": broker.bootstrap, **SENDING})
    records = records_of(topic)
    while waiting := [{"key": key, "value": value} for key, value in islice(records, TOGETHER)]:
        while waiting:
            producer.produce_batch(topic.name, waiting)
            # The client's queue is full: these are not in it.
            waiting = [one for one in waiting if one.pop("_error", None) is not None]
            producer.poll(FULL_S if waiting else 0)
    producer.flush(ANSWER_S)
    found = sum(ends_of(broker.bootstrap, topic.name))
    if found != topic.records:
        raise FillError(f"{topic.name} has {found:,} of {topic.records:,} records; see the broker's log.")


def ends_of(bootstrap: str, topic: str) -> list[int]:
    """Return where each partition of a topic ends."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "ends"})
    try:
        return [
            consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10.0)[1]
            for partition in range(PARTITIONS)
        ]
    finally:
        consumer.close()


def records_of(topic: Filled) -> Iterator[tuple[bytes, bytes]]:
    """Yield keys and values: JSON of 200 bytes, or text of 200 bytes that fails."""
    draw = random.Random(1).random  # noqa: S311 - the same records in every run
    keys = [b"key-%05d" % number for number in range(topic.keys)]
    pad = b"x" * VALUE_BYTES
    for number in range(topic.records):
        key = keys[int(draw() * topic.keys)]
        if topic.poison and draw() < topic.poison:
            start = b"poison %d " % number
            yield key, start + pad[len(start) :]
        else:
            start = b'{"home":"home-%03d","n":%d,"pad":"' % (number % 1000, number)
            yield key, start + pad[len(start) + 2 :] + b'"}'


@contextmanager
def sending(bootstrap: str, topic: str, live: Live) -> Iterator[None]:
    """Let a producer send into a topic for as long as the context lasts."""
    options = {"bootstrap": bootstrap, "topic": topic, "per_s": live.per_s, "hot_per_s": live.hot_per_s}
    command = [sys.executable, str(PRODUCER), json.dumps(options)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        try:
            yield
        finally:
            process.stdin.close()
            try:
                code = process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        if code:
            raise RuntimeError(f"The producer ended with exit code {code}; its error is above.")
