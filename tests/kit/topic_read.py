"""Reads all that is in a topic, such as the outputs that a test wants to judge."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, TopicPartition

from tests.kit.waiting import wait_until


def read_all(bootstrap: str, topic: str) -> list[tuple[bytes, bytes]]:
    """Return key and value of each record that is there now, each partition's in order."""
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "reads", "enable.auto.commit": False})
    try:
        numbers = sorted(reader.list_topics(topic, timeout=10.0).topics[topic].partitions)
        places = [TopicPartition(topic, number, 0) for number in numbers]
        count = sum(reader.get_watermark_offsets(place, timeout=10.0)[1] for place in places)
        reader.assign(places)
        found: list[Any] = []

        def has_all() -> bool:
            found.extend(message for message in reader.consume(500, 0.02) if message.error() is None)
            return len(found) >= count

        wait_until(has_all, timeout_s=60.0)
        return [(message.key(), message.value()) for message in found]
    finally:
        reader.close()
