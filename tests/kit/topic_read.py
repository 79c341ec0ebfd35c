"""Reads all that is in a topic, such as the outputs that a test wants to judge."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, TopicPartition

from tests.kit.waiting import wait_until


def read_messages(bootstrap: str, topic: str, **properties: Any) -> list[Any]:
    """Return what readers of committed transactions see now, each partition's in order."""
    quick = {"enable.auto.commit": False, "enable.partition.eof": True, "fetch.wait.max.ms": 20}
    reader = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reads", "log_level": 0, **quick, **properties}
    )
    try:
        numbers = sorted(reader.list_topics(topic, timeout=10.0).topics[topic].partitions)
        reader.assign([TopicPartition(topic, number, 0) for number in numbers])
        found: list[Any] = []
        at_end: set[int | None] = set()

        def has_all() -> bool:
            for message in reader.consume(500, 0.02):
                if message.error() is None:
                    found.append(message)
                else:
                    at_end.add(message.partition())
            return len(at_end) == len(numbers)

        wait_until(has_all, timeout_s=60.0)
        return found
    finally:
        reader.close()


def read_all(bootstrap: str, topic: str) -> list[tuple[bytes, bytes]]:
    """Return key and value of each."""
    return [(message.key(), message.value()) for message in read_messages(bootstrap, topic)]


def letters_of(bootstrap: str, topic: str) -> list[tuple[int, int, bytes | None]]:
    """Return origin partition, origin offset and key of each dead letter, in the order of the topic."""
    found = []
    for message in read_messages(bootstrap, topic):
        headers = dict(message.headers() or [])
        where = headers["ehkafka-origin-partition"], headers["ehkafka-origin-offset"]
        found.append((int(where[0]), int(where[1]), message.key()))
    return found
