"""A cluster of three nodes does what a fault is meant to do, as clients and the other nodes see it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ehkafka.errors import EhkafkaError
from tests.kit.cluster.cluster import KafkaCluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import NoReturn

pytestmark = pytest.mark.broker

TOPIC = "orders"
PARTITIONS = 6


@pytest.fixture(scope="module")
def shared(without_broker: Callable[[EhkafkaError], NoReturn]) -> Iterator[KafkaCluster]:
    """Run one cluster for the module, with two clients."""
    cluster = KafkaCluster(clients=("app", "other"))
    try:
        cluster.start()
    except EhkafkaError as error:
        without_broker(error)
    try:
        cluster.create_topic(TOPIC, PARTITIONS)
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def cluster(shared: KafkaCluster) -> Iterator[KafkaCluster]:
    """Hand the cluster to one test, whole; and have it whole again."""
    shared.wait_until_in_sync()
    yield shared
    shared.wait_until_in_sync()


def test_a_killed_node_is_replaced_as_leader_and_as_controller(cluster: KafkaCluster) -> None:
    """What was acknowledged before and after a crash is read, and the node comes back in sync."""
    killed = cluster.controller()
    write(cluster.bootstrap_for("app"), b"before")

    killed.kill()

    assert not killed.is_running
    write(cluster.bootstrap_for("app"), b"after")
    assert cluster.controller() is not killed
    assert killed.number not in leaders(cluster).values()
    killed.restart()
    cluster.wait_until_in_sync()
    assert read(cluster.bootstrap_for("other"), 2 * PARTITIONS) == {
        b"before": PARTITIONS,
        b"after": PARTITIONS,
    }


def test_a_frozen_controller_is_replaced_and_follows_when_it_resumes(cluster: KafkaCluster) -> None:
    """It takes no part while it is suspended, and runs all the time."""
    frozen = cluster.controller()

    frozen.suspend()

    assert frozen.is_running
    assert not frozen.answers
    assert cluster.controller() is not frozen
    frozen.resume()
    cluster.wait_until_in_sync()
    assert cluster.controller() is not frozen


def leaders(cluster: KafkaCluster) -> dict[int, int]:
    """Return the leader of each partition of the topic, as the active controller's node knows it."""
    partitions = cluster.controller().state().partitions
    return {number: state.leader for (topic, number), state in partitions.items() if topic == TOPIC}


def write(bootstrap: str, value: bytes, timeout_s: float = 20.0) -> None:
    """Write one value to each partition, acknowledged by all replicas in sync."""
    refused: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
    for partition in range(PARTITIONS):
        producer.produce(
            TOPIC,
            value,
            partition=partition,
            on_delivery=lambda error, _: refused.append(error) if error else None,
        )
    assert producer.flush(timeout_s) == 0
    assert refused == []


def read(bootstrap: str, count: int, timeout_s: float = 20.0) -> dict[bytes, int]:
    """Read so many values from the beginning, and count them."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "log_level": 0})
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    seen: dict[bytes, int] = {}
    deadline_s = time.monotonic() + timeout_s
    while sum(seen.values()) < count and time.monotonic() < deadline_s:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            value = message.value() or b""
            seen[value] = seen.get(value, 0) + 1
    consumer.close()
    return seen
