"""Reading the records that tell logs apart: all partitions at once, in little time, and what is left out."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from ehkafka.endpoint.client import open_consumer
from ehkafka.positions.same_log import Reading
from ehkafka.positions.witness import read_witnesses, witness_properties
from ehkafka.records import TopicPartition
from ehkafka.testing import EmbeddedBroker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from confluent_kafka import Consumer

PARTITIONS = 16


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    """Return a broker with ten records in each of many partitions."""
    with EmbeddedBroker({"t": PARTITIONS}) as broker:
        for partition in range(PARTITIONS):
            broker.produce("t", [(b"k", b"x")] * 10, partition=partition)
        yield broker


@pytest.fixture
def consumer(broker: EmbeddedBroker) -> Iterator[Consumer]:
    """Return a consumer that joins no group."""
    consumer = open_consumer(
        witness_properties({**broker.consumer_properties, "group.id": "reads", "log_level": 0})
    )
    yield consumer
    consumer.close()


def partition(number: int) -> TopicPartition:
    """Return one's name."""
    return TopicPartition("t", number)


def test_all_partitions_are_read_in_one_assign(consumer: Consumer) -> None:
    """As many as there are, each at its own offset."""
    found = read_witnesses(consumer, {partition(number): number % 10 for number in range(PARTITIONS)})
    assert len(found) == PARTITIONS
    assert all(reading.first is not None for reading in found.values())
    assert {one.partition: reading.first[0] for one, reading in found.items() if reading.first} == {
        number: number % 10 for number in range(PARTITIONS)
    }


def test_what_is_not_there_is_distinguished_from_what_ends_before(
    broker: EmbeddedBroker, consumer: Consumer
) -> None:
    """Deleted by retention: nothing to read it by. Behind the log's end: the log is shorter."""
    broker.delete_records("t", 1, 5)
    found = read_witnesses(consumer, {partition(1): 2, partition(2): 10, partition(3): 500})
    assert found == {
        partition(1): Reading(None),
        partition(2): Reading(None, 10),
        partition(3): Reading(None, 10),
    }


def test_what_is_not_read_in_time_is_left_out(broker: EmbeddedBroker, consumer: Consumer) -> None:
    """No broker answers: bounded in time for all together, and nothing is said of any."""
    broker.take_down()
    began_s = time.monotonic()
    assert read_witnesses(consumer, {partition(number): 1 for number in range(4)}, 0.3) == {}
    assert time.monotonic() - began_s < 5.0
