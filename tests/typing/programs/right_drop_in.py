"""A program as users write it, for type checkers alone: it is never run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_type

import confluent_kafka
from confluent_kafka import Message, TopicPartition

import ehkafka

if TYPE_CHECKING:
    from collections.abc import Callable


def program(config: dict[str, Any]) -> None:
    """Use the drop-in in the ways of the guide."""
    with ehkafka.Consumer(config, endpoint=ehkafka.Endpoint.from_env(), contiguous=True) as consumer:
        plain: confluent_kafka.Consumer = consumer
        plain.subscribe(["readings"], on_assign=assigned)
        consumer.subscribe(["readings"], on_assign=assigned, on_revoke=assigned, on_lost=assigned)
        message = consumer.poll(1.0)
        assert message is not None
        consumer.store_offsets(message)
        consumer.store_offsets(offsets=[TopicPartition("readings", 0, 1)])
        assert_type(consumer.commit(), None)
        assert_type(consumer.commit(message), None)
        assert_type(consumer.commit(message=message, asynchronous=True), None)
        assert_type(consumer.commit(asynchronous=False), list[TopicPartition])
        assert_type(consumer.commit(offsets=[], asynchronous=False), list[TopicPartition])
        assert_type(len(consumer.consume(100, timeout=1.0)), int)
        assert_type(consumer.position([]), list[TopicPartition])
    ehkafka.Consumer(config, sync_commit="deferred")
    deserializing = ehkafka.DeserializingConsumer(config, endpoint=None)
    deserializing.close()


def assigned(consumer: confluent_kafka.Consumer, partitions: list[TopicPartition]) -> None:
    """Take an assignment."""
    consumer.assign(partitions)


def handle(message: Message) -> None:
    """Handle a message."""


def adapted() -> Callable[[ehkafka.Record], Any]:
    """Return a handler of records."""
    return ehkafka.adapt(handle)
