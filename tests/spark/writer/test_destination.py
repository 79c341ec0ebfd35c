"""The driver's look: what is wrong with topic, broker or properties is an error before the first task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.errors import ConfigurationError, EhkafkaError, EndpointError, TopicNotFoundError
from ehkafka.spark.writer import sink
from ehkafka.spark.writer.options import writer_options
from ehkafka.spark.writer.sink import check_destination
from ehkafka.testing import ApiKey, EmbeddedBroker

if TYPE_CHECKING:
    from collections.abc import Iterator

CLUSTER_AUTHORIZATION_FAILED = 31


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    """A broker with the topic `readings`, and a process that has looked nowhere."""
    sink._SEEN.clear()
    with EmbeddedBroker({"readings": 4}) as running:
        yield running


def look(broker: EmbeddedBroker, topic: str | None, *, is_stream: bool = False, **more: Any) -> None:
    """Look as a write with these options does."""
    given = {"kafka.bootstrap.servers": broker.bootstrap, **more} | ({"topic": topic} if topic else {})
    check_destination(writer_options(given), is_stream=is_stream)


@pytest.mark.parametrize("topic", ["readings", None])
def test_a_stream_looks_once_a_process(broker: EmbeddedBroker, topic: str | None) -> None:
    """A broker that restarts later must not end it; the tasks wait for that."""
    look(broker, topic, is_stream=True)
    broker.track_requests()
    look(broker, topic, is_stream=True)
    assert broker.requests() == []


@pytest.mark.parametrize(
    ("topic", "more", "kind", "says"),
    [
        (
            "raedings",
            {},
            TopicNotFoundError,
            r"topic raedings: the broker has no such topic\. Did you mean 'readings'",
        ),
        ("readings", {"kafka.acks": "1"}, ConfigurationError, "acks='1' is refused"),
        ("readings", {"kafka.bootstrap.servers": "127.0.0.1:1"}, EndpointError, "127.0.0.1:1"),
    ],
)
def test_what_is_wrong_is_an_error_of_the_driver(
    broker: EmbeddedBroker, topic: str, more: dict[str, Any], kind: type[EhkafkaError], says: str
) -> None:
    """In the words of a check."""
    with pytest.raises(kind, match=says):
        look(broker, topic, **more)


def test_a_broker_that_refuses_a_producer_its_id_is_an_error_of_the_driver(broker: EmbeddedBroker) -> None:
    """No right to write, where brokers say so before the first message."""
    broker.fail_next(ApiKey.INIT_PRODUCER_ID, CLUSTER_AUTHORIZATION_FAILED)
    with pytest.raises(
        EndpointError, match="No rows can be written, because the broker gives their producer no ID"
    ):
        look(broker, "readings")
