from __future__ import annotations

import threading
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from ehkafka.embedded import broker as embedded
from ehkafka.endpoint import Endpoint
from ehkafka.endpoint.client import open_producer
from ehkafka.endpoint.properties.layers import producer_properties
from ehkafka.errors import ConfigurationError


def partition_counts(endpoint: Endpoint) -> dict[str, int]:
    """Ask the broker for its topics, as any client would."""
    topics = AdminClient(endpoint.client_properties()).list_topics(timeout=10).topics
    return {name: len(topic.partitions) for name, topic in topics.items()}


def test_the_broker_starts_on_first_use_and_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Describing costs nothing; many threads that use one endpoint share one broker."""
    started: list[object] = []
    genuine = embedded.EmbeddedBroker.start

    def start(broker: embedded.EmbeddedBroker) -> embedded.EmbeddedBroker:
        started.append(broker)
        return genuine(broker)

    monkeypatch.setattr(embedded.EmbeddedBroker, "start", start)
    with Endpoint.embedded() as endpoint:
        assert not started
        found: list[dict[str, Any]] = []
        threads = [
            threading.Thread(target=lambda: found.append(endpoint.client_properties())) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(started) == 1
    assert len(found) == 8
    assert len({one["bootstrap.servers"] for one in found}) == 1
    assert found[0]["bootstrap.servers"].startswith(("127.0.0.1:", "localhost:"))


def test_topics_that_are_missing_are_made() -> None:
    """Given topics keep their partition count; subscribed ones get the endpoint's; twice changes nothing."""
    with Endpoint.embedded({"orders": 3}, partitions=5) as endpoint:
        endpoint.prepare_topics(["orders", "readings"])
        endpoint.prepare_topics(["readings"])
        assert partition_counts(endpoint) == {"orders": 3, "readings": 5}


def test_a_topic_that_a_producer_made_stays_as_it_is() -> None:
    """A producer that sends first has made the topic; preparing it then is no error."""
    with Endpoint.embedded() as endpoint:
        producer = open_producer(producer_properties(endpoint, {}))
        producer.produce("early", b"1")
        assert producer.flush(10) == 0
        before = partition_counts(endpoint)
        endpoint.prepare_topics(["early"])
        assert partition_counts(endpoint) == before


def test_a_closed_embedded_endpoint_says_so() -> None:
    """A fresh, empty broker after close would look like lost records, so there is none."""
    endpoint = Endpoint.embedded()
    endpoint.client_properties()
    endpoint.close()
    endpoint.close()
    for use in (endpoint.client_properties, lambda: endpoint.prepare_topics(["readings"])):
        with pytest.raises(ConfigurationError, match="was closed and its records are gone"):
            use()


@pytest.mark.parametrize(
    ("topics", "partitions"), [({"a": 0}, 16), ({"a": "3"}, 16), ({}, 0), ({}, True), ({"partitions": -1}, 1)]
)
def test_partition_counts_are_checked_at_once(topics: Any, partitions: Any) -> None:
    """A count that no topic can have is refused where it was written, not at first use."""
    with pytest.raises(ConfigurationError, match="needs 1 to 10000 partitions"):
        Endpoint.embedded(topics, partitions=partitions)
