"""A broker with one topic, and consumers on it that are always closed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError

import ehkafka
from ehkafka.testing import EmbeddedBroker
from tests.kit.faults.kafka_proxy import CommitPolicy, KafkaProxy
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from confluent_kafka import Message

LIMIT_S = 20.0
RECORDS = 100


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    """Return an embedded broker with `t` (one partition) and `t4`, each of a hundred records."""
    with EmbeddedBroker({"t": 1, "t4": 4}) as running:
        for topic in ("t", "t4"):
            running.produce(topic, [(f"key-{number}", b"v") for number in range(RECORDS)])
        yield running


@pytest.fixture
def slow(broker: EmbeddedBroker) -> Iterator[KafkaProxy]:
    """Return a proxy before the broker that takes 1.1 s for each commit, as Event Hubs was seen to."""
    with KafkaProxy(broker.bootstrap) as proxy:
        broker.advertise("127.0.0.1", proxy.port)
        busy = KafkaError.COORDINATOR_LOAD_IN_PROGRESS
        proxy.policy = CommitPolicy(delay_s=1.1, per_s=2, excess_code=busy)
        yield proxy


@pytest.fixture
def open_consumer(broker: EmbeddedBroker) -> Iterator[Callable[..., ehkafka.Consumer]]:
    """Return a function that opens a drop-in: properties as `name=`, ours as `choices=`."""
    opened: list[ehkafka.Consumer] = []

    def open_one(choices: dict[str, Any] | None = None, **properties: Any) -> ehkafka.Consumer:
        fixed = {"group.id": "g", "auto.offset.reset": "earliest", "fetch.wait.max.ms": 20, "log_level": 0}
        given = {
            name if "_cb" in name or name == "on_commit" else name.replace("_", "."): value
            for name, value in properties.items()
        }
        consumer = ehkafka.Consumer(broker.consumer_properties | fixed | given, **(choices or {}))
        opened.append(consumer)
        return consumer

    yield open_one
    for consumer in opened:
        consumer.close()


@pytest.fixture
def read() -> Callable[..., list[Message]]:
    """Return a function that polls until so many records have come."""

    def read_some(consumer: ehkafka.Consumer, count: int) -> list[Message]:
        found: list[Message] = []

        def take() -> None:
            found.extend(m for m in consumer.consume(count - len(found), 0.1) if m.error() is None)

        wait_until(lambda: len(found) >= count, lambda: f"{count} records", meanwhile=take)
        return found

    return read_some


@pytest.fixture
def committed(broker: EmbeddedBroker) -> Callable[[str], dict[int, int]]:
    """Return a function that tells what the group has committed of a topic."""

    def check(topic: str) -> dict[int, int]:
        found = broker.committed("g", topic)
        return {partition: offset for partition, offset in found.items() if offset is not None}

    return check
