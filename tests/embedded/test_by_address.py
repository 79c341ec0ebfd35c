"""An embedded broker is one for whatever has only its address, and for as long as it runs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import OFFSET_END, KafkaException

import ehkafka
from ehkafka.embedded.topics import produce
from ehkafka.endpoint import Endpoint
from ehkafka.endpoint.client import open_consumer
from ehkafka.endpoint.properties.layers import consumer_properties
from ehkafka.positions.log_bounds import offsets_at
from ehkafka.records import TopicPartition
from ehkafka.testing import EmbeddedBroker
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

SECOND_MS = 1_000
FIRST, SECOND = (TopicPartition("orders", number) for number in range(2))


def properties_of(address: str) -> dict[str, Any]:
    """Return those of an app's consumer."""
    endpoint = Endpoint.kafka(address)
    made = consumer_properties(endpoint, "g", {}, assignor="default", instance_id=None)
    return {**endpoint.client_properties(), **made, "log_level": 0}


@pytest.fixture
def reader(broker: EmbeddedBroker) -> Iterator[Any]:
    """Open an app's consumer on the address of a broker whose records are a second apart, from 1 s on."""
    for second in range(1, 6):
        produce(broker.bootstrap, "orders", [("a", b"x")], partition=0, timestamp_ms=second * SECOND_MS)
    opened = open_consumer(properties_of(broker.bootstrap))
    yield opened
    opened.close()


def test_an_app_that_has_the_address_gets_the_short_session_of_the_broker() -> None:
    """Else each rebalance takes 29 s. After the broker's end the port may be that of another one."""
    with EmbeddedBroker(brokers=2) as broker:
        addresses = [broker.bootstrap, broker.bootstrap.split(",")[1].replace("127.0.0.1", "localhost")]
        assert [properties_of(one)["session.timeout.ms"] for one in addresses] == [1_500, 1_500]
    assert [properties_of(one)["session.timeout.ms"] for one in addresses] == [30_000, 30_000]


def test_a_time_leads_to_the_first_record_that_is_as_late(reader: Any) -> None:
    """Before the first, between two, at one, after the last, in an empty partition; -2 is the log's begin."""
    for at_ms, offset in ((1, 0), (1_500, 1), (3_000, 2), (6_000, OFFSET_END), (-2, 0)):
        asked = {FIRST: at_ms, SECOND: at_ms}
        assert offsets_at(reader, asked, 5) == {FIRST: offset, SECOND: OFFSET_END if at_ms > 0 else 0}


def test_a_log_that_cannot_be_read_in_time_is_an_error(reader: Any, broker: EmbeddedBroker) -> None:
    """It is not the end."""
    assert offsets_at(reader, {FIRST: SECOND_MS}, 5) == {FIRST: 0}
    broker.set_rtt(0.2)
    with pytest.raises(KafkaException):
        offsets_at(reader, {FIRST: SECOND_MS}, 0.5)


def test_an_app_begins_where_its_function_says(broker: EmbeddedBroker) -> None:
    """A function that returns a time begins at that time, as on Apache Kafka."""
    for second in range(1, 6):
        produce(broker.bootstrap, "orders", [("a", b"x")], partition=0, timestamp_ms=second * SECOND_MS)
    begin = datetime.fromtimestamp(4, UTC)
    app = ehkafka.App(
        group="g", endpoint=Endpoint.kafka(broker.bootstrap), start=lambda _topic, _partition: begin
    )
    offsets: list[int] = []

    @app.handler("orders")
    def note(record: ehkafka.Record) -> None:
        offsets.append(record.offset())

    with app:
        wait_until(lambda: len(offsets) >= 2)
    assert offsets == [3, 4]
