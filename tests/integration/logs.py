"""A topic of one partition that is made anew with a longer log, and the group's commit on it."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as KafkaPartition


def fill(stage: Any, word: str, count: int) -> None:
    """Write so many records, their number in the value."""
    producer = Producer({"bootstrap.servers": stage.broker.bootstrap})
    for number in range(count):
        producer.produce(stage.topic, f"{word}-{number}".encode(), f"key-{number % 7}".encode(), partition=0)
    assert not producer.flush(30.0)


def make_anew(stage: Any, count: int) -> None:
    """Delete the topic, make it again, and write so many records."""
    stage.broker.delete_topic(stage.topic)
    stage.broker.create_topic(stage.topic, 1)
    fill(stage, "new", count)


def commit_of(stage: Any) -> KafkaPartition:
    """Return the group's commit with its metadata, as confluent-kafka reads it."""
    consumer = Consumer({"bootstrap.servers": stage.broker.bootstrap, "group.id": stage.group})
    try:
        return consumer.committed([KafkaPartition(stage.topic, 0)], timeout=15.0)[0]
    finally:
        consumer.close()


def put_commit(stage: Any, next_offset: int, metadata: str | None) -> None:
    """Commit for the group from outside: the broker forgets the commits of a topic that is deleted."""
    consumer = Consumer({"bootstrap.servers": stage.broker.bootstrap, "group.id": stage.group})
    optional = {} if metadata is None else {"metadata": metadata}
    try:
        wanted = KafkaPartition(stage.topic, 0, next_offset, **optional)
        consumer.commit(offsets=[wanted], asynchronous=False)
    finally:
        consumer.close()
