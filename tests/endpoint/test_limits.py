from __future__ import annotations

import ast
import inspect
import itertools
import re
from typing import Any

import pytest

from ehkafka.endpoint import Endpoint
from ehkafka.endpoint.properties import limits
from ehkafka.endpoint.properties.advice import consumer_advice, producer_advice
from ehkafka.endpoint.properties.layers import (
    consumer_properties,
    explain_consumer,
    letter_properties,
    producer_properties,
    without_ids,
)
from ehkafka.errors import ConfigurationError

PLAIN = Endpoint.kafka("kafka.example:9092")
HUBS = Endpoint.kafka("ns.servicebus.windows.net:9093", {"security.protocol": "SASL_SSL"})
EMULATOR = Endpoint.connection_string(
    "Endpoint=sb://emulator.example;SharedAccessKeyName=RootManageSharedAccessKey;"
    "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true"
)


def consumer(endpoint: Endpoint, overrides: dict[str, Any], assignor: Any = "default") -> dict[str, Any]:
    """Return the properties of a consumer in the group `home`."""
    return consumer_properties(endpoint, "home", overrides, assignor=assignor, instance_id=None)


def advised(endpoint: Endpoint, overrides: dict[str, Any], assignor: Any = "default") -> list[str]:
    """Return the names of the properties that a consumer is advised about."""
    return [each.property for each in consumer_advice(endpoint, consumer(endpoint, overrides, assignor))]


def test_every_limit_names_its_source() -> None:
    """Each constant of the room is followed by a text that says which document it comes from."""
    body = ast.parse(inspect.getsource(limits)).body
    numbers = [
        (statement.targets[0].id, following)
        for statement, following in itertools.pairwise(body)
        if isinstance(statement, ast.Assign)
        and isinstance(statement.targets[0], ast.Name)
        and not statement.targets[0].id.endswith("_SOURCE")
    ]
    assert len(numbers) >= 20
    for name, following in numbers:
        text = following.value.value if isinstance(following, ast.Expr) else ""  # type: ignore[attr-defined]
        assert re.search(r"Source|measured|documented", text), f"{name} says no source"


@pytest.mark.parametrize("endpoint", [PLAIN, HUBS, EMULATOR], ids=lambda each: each.kind)
def test_our_own_defaults_follow_all_advice(endpoint: Endpoint) -> None:
    """Who changes nothing is warned of nothing, consumer and producer, on every kind of endpoint."""
    assert advised(endpoint, {}) == []
    assert producer_advice(endpoint, producer_properties(endpoint, {})) == []
    with Endpoint.embedded() as embedded:
        assert advised(embedded, {}) == [], "its quick timings are chosen with care"


@pytest.mark.parametrize("session_ms", [6_000, 9_000, 30_000, 300_000])
def test_a_permitted_session_never_brings_advice_about_what_follows_from_it(session_ms: int) -> None:
    """What we derive from the user's session time-out is no setting of the user."""
    found = advised(HUBS, {"session.timeout.ms": session_ms})
    assert set(found) <= {"session.timeout.ms"}
    assert bool(found) == (session_ms < limits.SESSION_TIMEOUT_MS_RECOMMENDED)


@pytest.mark.parametrize(
    ("name", "value", "edge", "shown"),
    [
        ("metadata.max.age.ms", 180_001, 180_000, "recommends 180000 and permits below 240000"),
        ("connections.max.idle.ms", 239_999, 180_000, "recommends 180000 and permits below 240000"),
        ("session.timeout.ms", 29_999, 30_000, "recommends 30000 and permits 6000 to 300000"),
        ("heartbeat.interval.ms", 3_001, 3_000, "recommends 3000"),
        ("max.poll.interval.ms", 299_999, 300_000, "300000 and permits above session.timeout.ms"),
        ("socket.keepalive.enable", "false", "true", "recommends true"),
    ],
)
def test_what_the_service_recommends_otherwise_is_reported(
    name: str, value: Any, edge: Any, shown: str
) -> None:
    """Permitted but not recommended is one piece of advice; the edge belongs to what is recommended."""
    (advice,) = consumer_advice(HUBS, consumer(HUBS, {name: value}))
    assert (advice.property, str(value) in advice.value, shown in advice.advice) == (name, True, True)
    assert advice.source == "Event Hubs docs, Apache Kafka client configurations"
    assert advised(PLAIN, {name: value}) == [], "it is the service's advice, not Kafka's"
    assert advised(HUBS, {name: edge}) == []


def test_a_third_of_the_session_is_advised_anywhere() -> None:
    """Between a third and a half of the session a heartbeat is permitted, and advised against."""
    overrides = {"session.timeout.ms": 30_000, "heartbeat.interval.ms": 10_001}
    (advice,) = consumer_advice(PLAIN, consumer(PLAIN, overrides))
    assert (advice.property, advice.value) == ("heartbeat.interval.ms", "10001")
    assert "Set 10000 or less" in advice.advice
    assert advised(PLAIN, overrides | {"heartbeat.interval.ms": 10_000}) == []


def test_cooperative_rebalances_are_advised_against_on_event_hubs_alone() -> None:
    """They are not documented there; on Apache Kafka they are an option like any other."""
    assert advised(HUBS, {}, "cooperative-sticky") == ["partition.assignment.strategy"]
    assert advised(PLAIN, {}, "cooperative-sticky") == []


@pytest.mark.parametrize(
    ("overrides", "name"),
    [
        ({"enable.ssl.certificate.verification": "0"}, "enable.ssl.certificate.verification"),
        ({"ssl.endpoint.identification.algorithm": "None"}, "ssl.endpoint.identification.algorithm"),
    ],
)
def test_unchecked_certificates_are_reported(overrides: dict[str, Any], name: str) -> None:
    """Without the check a server in between reads the key; on this machine there is none in between."""
    encrypted = {"security.protocol": "SSL", **overrides}
    assert advised(PLAIN, encrypted) == [name]
    with pytest.raises(ConfigurationError, match=f"{name}=.* is refused: a machine between"):
        advised(HUBS, overrides)
    assert advised(Endpoint.kafka("localhost:9093"), encrypted) == []
    assert advised(PLAIN, overrides) == [], "nothing is encrypted"


def test_a_password_in_plain_text_is_reported_without_showing_it() -> None:
    """SASL/PLAIN without TLS sends the password itself."""
    reported = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.password": "hunter2!"}
    (advice,) = consumer_advice(PLAIN, consumer(PLAIN, reported))
    assert advice.property == "security.protocol"
    assert "unencrypted" in advice.advice
    assert "hunter2!" not in repr(advice)
    assert advised(PLAIN, reported | {"sasl.mechanism": "SCRAM-SHA-512"}) == []
    assert advised(Endpoint.kafka("127.0.0.1:9092"), reported) == []


def test_a_namespace_without_tls_is_reported_or_refused() -> None:
    """Nothing said about security cannot connect; another protocol said is beyond what is permitted."""
    bare = Endpoint.kafka("ns.servicebus.windows.net:9093")
    assert advised(bare, {}) == ["security.protocol"]
    for preparing in (consumer, producer_properties):
        with pytest.raises(
            ConfigurationError, match=r"security.protocol='SASL_PLAINTEXT' is refused.*only SASL_SSL.*docs"
        ):
            preparing(bare, {"security.protocol": "SASL_PLAINTEXT"})
    tunnel = {"security.protocol": "SASL_PLAINTEXT", "bootstrap.servers": "127.0.0.1:9093"}
    name = "Endpoint=sb://ns.servicebus.windows.net/;SharedAccessKeyName=n;SharedAccessKey=k"
    assert advised(Endpoint.connection_string(name, properties=tunnel), {}) == []


@pytest.mark.parametrize(
    ("overrides", "name", "shown"),
    [
        ({"request.timeout.ms": 20_001}, "request.timeout.ms", "forget the producer's ID"),
        ({"request.timeout.ms": 59_999}, "request.timeout.ms", "forget the producer's ID"),
        ({"compression.codec": "GZIP"}, "compression.type", "in the Premium and Dedicated tiers only"),
        ({"message.max.bytes": "1046528"}, "message.max.bytes", "1046528 bytes or more"),
        ({"metadata.max.age.ms": 200_000}, "metadata.max.age.ms", "recommends 180000"),
    ],
)
def test_a_producer_is_advised_on_event_hubs(overrides: dict[str, Any], name: str, shown: str) -> None:
    """Permitted, or permitted on Dedicated clusters alone: reported. What no tier takes is refused."""
    (advice,) = producer_advice(HUBS, producer_properties(HUBS, overrides))
    assert (advice.property, shown in advice.advice) == (name, True)
    assert producer_advice(PLAIN, producer_properties(PLAIN, overrides)) == []
    edges = {"request.timeout.ms": 60_000, "message.max.bytes": 1_046_527}
    assert producer_advice(HUBS, producer_properties(HUBS, edges)) == []


def test_the_explanation_is_of_exactly_what_a_client_gets() -> None:
    """Same names and values as the client's, each with the layer that decided it."""
    overrides = {"fetch.message.max.bytes": 5_000, "session.timeout.ms": "45000"}
    endpoint = Endpoint.kafka(
        "ns.servicebus.windows.net:9093", {"client.id": "mine", "security.protocol": "SASL_SSL"}
    )
    explained = explain_consumer(endpoint, "home", overrides, assignor="default", instance_id="pod-1")
    properties = consumer_properties(endpoint, "home", overrides, assignor="default", instance_id="pod-1")
    assert {each.name: each.value for each in explained} == properties
    layers = {each.name: each.layer for each in explained}
    assert layers["max.partition.fetch.bytes"] == layers["session.timeout.ms"] == "app"
    assert layers["client.id"] == layers["bootstrap.servers"] == layers["metadata.max.age.ms"] == "endpoint"
    assert layers["enable.auto.commit"] == layers["group.instance.id"] == layers["group.id"] == "engine"
    assert layers["heartbeat.interval.ms"] == layers["queued.min.messages"] == "default"
    reasons = {each.name: each.reason for each in explained}
    assert "permits 6000 to 300000" in reasons["session.timeout.ms"]
    assert "idle for 240 s" in reasons["metadata.max.age.ms"]
    assert [each.name for each in explained if each.layer != "app" and not each.reason] == []


def test_letters_are_as_large_as_the_service_takes() -> None:
    """With the request around them below the limit; another one by property, on Dedicated 20 MB at most."""
    of_hubs = letter_properties(HUBS, {})["message.max.bytes"]
    assert 1_046_528 - 2_048 < of_hubs < 1_046_528 - 61 - 249 - 100
    assert letter_properties(PLAIN, {})["message.max.bytes"] > 100_000_000
    for endpoint in (HUBS, PLAIN):
        chosen = letter_properties(endpoint, {"message.max.bytes": 20_000_000, "fetch.wait.max.ms": 5})
        assert chosen["message.max.bytes"] == 20_000_000
        assert "fetch.wait.max.ms" not in chosen
    with pytest.raises(ConfigurationError, match=r"message\.max\.bytes=20971521"):
        letter_properties(HUBS, {"message.max.bytes": 20_971_521})


def test_letters_of_a_broker_without_producer_ids_go_one_request_at_a_time() -> None:
    """Else a request that is sent again could be overtaken."""
    plain = without_ids(letter_properties(PLAIN, {}))
    assert plain["enable.idempotence"] is False
    assert plain["max.in.flight.requests.per.connection"] == 1
    assert plain["acks"] == "all"
