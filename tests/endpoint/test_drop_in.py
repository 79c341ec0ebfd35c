"""What the drop-in adds to a program's properties, what it refuses, and what it leaves alone."""

from __future__ import annotations

from typing import Any

import pytest

from ehkafka.consumer.internals import Internals
from ehkafka.endpoint import Endpoint
from ehkafka.endpoint.drop_in import drop_in_properties, endpoint_of
from ehkafka.errors import ConfigurationError

HUBS = {
    "bootstrap.servers": "home.servicebus.windows.net:9093",
    "group.id": "g",
    "security.protocol": "SASL_SSL",
}
KEY = "Endpoint=sb://home.servicebus.windows.net/;SharedAccessKeyName=n;SharedAccessKey=c2VjcmV0"


def _on_event_hubs(**more: Any) -> dict[str, Any]:
    config = HUBS | {name.replace("_", "."): value for name, value in more.items()}
    endpoint = endpoint_of(config)
    assert endpoint is not None
    return drop_in_properties(endpoint, config)


def test_a_namespace_gets_what_keeps_its_connections() -> None:
    """Keep-alive and time-outs of Event Hubs, with the program's own values."""
    found = _on_event_hubs(auto_offset_reset="latest", metadata_max_age_ms=100_000)
    assert found["connections.max.idle.ms"] == 180_000
    assert found["session.timeout.ms"] == 30_000
    assert found["metadata.max.age.ms"] == 100_000
    assert found["auto.offset.reset"] == "latest"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("metadata_max_age_ms", 300_000),
        ("session_timeout_ms", 1_000),
        ("group_protocol", "consumer"),
        ("security_protocol", "PLAINTEXT"),
    ],
)
def test_what_event_hubs_does_not_take_is_refused(name: str, value: Any) -> None:
    """With the value and what to do."""
    with pytest.raises(ConfigurationError, match=name.replace("_", ".")) as refused:
        _on_event_hubs(**{name: value})
    assert str(value) in str(refused.value)


@pytest.mark.parametrize("servers", ["localhost:9092", "a:1,b:2", "", "not a host:x:y", None])
def test_other_brokers_are_left_alone(servers: str | None) -> None:
    """Nothing names Event Hubs: nothing is added, refused or even read."""
    assert endpoint_of({"bootstrap.servers": servers}) is None


def test_an_endpoint_brings_address_and_credentials() -> None:
    """The program's dict needs neither; it cannot bend them either."""
    endpoint = Endpoint.connection_string(KEY)
    found = drop_in_properties(endpoint, {"group.id": "g"})
    assert found["sasl.username"] == "$ConnectionString"
    with pytest.raises(ConfigurationError, match=r"sasl\.username"):
        drop_in_properties(endpoint, {"group.id": "g", "sasl.username": "other"})


def test_what_the_service_does_not_take_is_refused() -> None:
    """Before the client is opened."""
    with pytest.raises(ConfigurationError, match=r"session\.timeout\.ms"):
        Internals(HUBS | {"session.timeout.ms": 1_000}, {})


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("close_s", -1, "number from 0 to 86400"),
        ("unmarked_records_max", 0, "whole number from 1 to"),
        ("contiguous", 1, "give True or False"),
        ("sync_commit", "later", "use 'acknowledged' or 'deferred'"),
    ],
)
def test_an_option_that_cannot_work_is_refused(name: str, value: Any, words: str) -> None:
    """With what it takes."""
    with pytest.raises(ConfigurationError, match=rf"^Consumer: {name}=.*{words}"):
        Internals(HUBS, {name: value})
