"""Fills the benchmark's topics: the same records in every run, 200 bytes of value each."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from _bench_row import LETTERS, LIVE, OUTPUTS, Topic

from ehkafka.embedded.topics import produce

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.console import Console

    from ehkafka.testing.kafka.broker import KafkaBroker

LIVE_PARTITIONS = 8
FILL_S = 600.0
VALUE_BYTES = 200
# How many partitions share a millisecond in which records are gathered: batches are as large in any topic.
PARTITIONS_PER_MS = 8


def fill(broker: KafkaBroker, topics: Mapping[str, Topic], console: Console) -> None:
    """Create the topics and fill those that are read afterwards."""
    broker.create_topic(LIVE, LIVE_PARTITIONS)
    broker.create_topic(LETTERS, 1)
    broker.create_topic(OUTPUTS, LIVE_PARTITIONS)
    for name, topic in topics.items():
        broker.create_topic(name, topic.partitions)
        console.print(f"Filling {name} with {topic.records:,} records …")
        produce(
            broker.bootstrap,
            name,
            _records(topic),
            partition=topic.only_partition,
            properties={"linger.ms": max(1, topic.partitions // PARTITIONS_PER_MS)},
            timeout_s=FILL_S,
        )


def _records(topic: Topic) -> Iterator[tuple[bytes, bytes]]:
    pick = random.Random(1)  # noqa: S311 - the same records in every run
    # Every key once where there are as many keys as records.
    even = topic.even or topic.keys == topic.records
    for number in range(topic.records):
        key = number % topic.keys if even else pick.randrange(topic.keys)
        yield b"key-%07d" % key, _json(number) if topic.json else _text(number)


def _text(number: int) -> bytes:
    return b"%012d" % number + b"x" * (VALUE_BYTES - 12)


def _json(number: int) -> bytes:
    start = b'{"home":"home-%03d","n":%d,"pad":"' % (number % 1000, number)
    return start + b"x" * (VALUE_BYTES - 2 - len(start)) + b'"}'
