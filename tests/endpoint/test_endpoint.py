from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from ehkafka.endpoint import Endpoint
from ehkafka.endpoint.bootstrap import bootstrap_hosts, is_event_hubs_host, is_loopback
from ehkafka.errors import ConfigurationError

Hidden = Callable[..., None]


def test_a_kafka_endpoint_passes_any_property_through() -> None:
    """Text, numbers, flags and callables reach the client as they were given."""

    def token(_config: str) -> tuple[str, float]:
        return "", 0.0

    given: dict[str, Any] = {
        "security.protocol": "SASL_SSL",
        "oauth_cb": token,
        "linger.ms": 2.5,
        "retries": 3,
    }
    endpoint = Endpoint.kafka("a.example.test:9092,b.example.test", given)
    assert endpoint.client_properties() == {
        "bootstrap.servers": "a.example.test:9092,b.example.test",
        **given,
    }
    assert (endpoint.kind, endpoint.name) == ("kafka", "a.example.test and 1 more")
    assert not endpoint.is_event_hubs
    assert endpoint.default_topic is None


def test_properties_returned_are_the_callers_own() -> None:
    """Changing what was given or what was returned does not change the endpoint."""
    given = {"linger.ms": 1}
    endpoint = Endpoint.kafka("localhost:9092", given)
    given["linger.ms"] = 2
    endpoint.client_properties()["linger.ms"] = 3
    assert endpoint.client_properties()["linger.ms"] == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        endpoint.name = "other"  # type: ignore[misc]


def test_a_second_name_of_a_property_is_the_same_property() -> None:
    """Aliases are brought into one spelling, so that no layer can hold a property twice."""
    endpoint = Endpoint.kafka("localhost:9092", {"sasl.mechanism": "PLAIN", "compression.codec": "gzip"})
    properties = endpoint.client_properties()
    assert (properties["sasl.mechanisms"], properties["compression.type"]) == ("PLAIN", "gzip")
    assert not {"sasl.mechanism", "compression.codec"} & properties.keys()


@pytest.mark.parametrize(
    ("properties", "shown"),
    [
        ({"linger.ms": None}, "linger.ms is None: leave it out"),
        ({"sasl.password": b"x"}, "the value of sasl.password is of type bytes"),
        ({"default.topic.config": {"acks": 0}}, "default.topic.config is not supported"),
        ({5: "x"}, "name is int"),
        ({"acks": 1, "request.required.acks": 0}, "acks is given twice"),
        ({"bootstrap.servers": "other:9092"}, "bootstrap.servers have different addresses"),
        ({"metadata.broker.list": "other:9092"}, "bootstrap.servers have different addresses"),
        ([("acks", 1)], "properties are of type list"),
    ],
)
def test_a_malformed_property_is_refused_by_name(properties: Any, shown: str) -> None:
    """What librdkafka would misread or silently reset is refused while the endpoint is made."""
    with pytest.raises(ConfigurationError, match=shown):
        Endpoint.kafka("localhost:9092", properties)


@pytest.mark.parametrize(
    ("bootstrap", "shown"),
    [
        ("", "empty"),
        (" ", "empty"),
        (None, "empty or not text"),
        ("a:9092,,b:9092", "entry 2 is not 'host:port'"),
        ("a:9092,b:x", "entry 2 is not 'host:port'"),
        ("http://a:9092", "entry 1 is not 'host:port'"),
        ("a:0", "the port of entry 1 must be from 1 to 65535"),
        ("a:70000", "the port of entry 1 must be from 1 to 65535"),
    ],
)
def test_a_malformed_bootstrap_is_refused_by_entry(bootstrap: Any, shown: str) -> None:
    """The entry that is wrong is named by its place, never repeated."""
    with pytest.raises(ConfigurationError, match=shown):
        Endpoint.kafka(bootstrap)


def test_hosts_are_read_out_of_every_form_of_bootstrap() -> None:
    """Protocol prefix, missing port, IPv6 and spaces are librdkafka's forms too."""
    assert bootstrap_hosts("SASL_SSL://a.test:1, b ,[::1]:9092") == ("a.test", "b", "[::1]")


@pytest.mark.parametrize(
    ("host", "loopback", "event_hubs"),
    [
        ("localhost", True, False),
        ("127.0.0.2", True, False),
        ("[::1]", True, False),
        ("10.0.0.1", False, False),
        ("localhost.example.test", False, False),
        ("ns.servicebus.windows.net", False, True),
        ("NS.ServiceBus.Windows.net.", False, True),
        ("ns.servicebus.chinacloudapi.cn", False, True),
        ("ns.servicebus.usgovcloudapi.net", False, True),
        ("servicebus.windows.net.example.test", False, False),
    ],
)
def test_hosts_are_distinguished_by_name(host: str, loopback: bool, event_hubs: bool) -> None:
    """This machine and the domains of Event Hubs are recognised without asking a resolver."""
    assert (is_loopback(host), is_event_hubs_host(host)) == (loopback, event_hubs)


def test_a_connection_string_gives_all_that_event_hubs_wants(connection_string: str) -> None:
    """Address, authentication, keep-alive and idle times come from the string alone."""
    endpoint = Endpoint.connection_string(f"'{connection_string};EntityPath=readings' ")
    assert endpoint.client_properties() == {
        "bootstrap.servers": "unit-test.servicebus.windows.net:9093",
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": "$ConnectionString",
        "sasl.password": f"{connection_string};EntityPath=readings",
        "socket.keepalive.enable": True,
        "metadata.max.age.ms": 180_000,
        "connections.max.idle.ms": 180_000,
    }
    assert (endpoint.name, endpoint.kind) == ("unit-test.servicebus.windows.net", "event-hubs")
    assert endpoint.default_topic == "readings"
    assert endpoint.is_event_hubs


def test_a_private_endpoint_and_a_local_broker_can_be_named(connection_string: str) -> None:
    """Bootstrap servers and the authority can be set with the string; the name stays the namespace."""
    endpoint = Endpoint.connection_string(
        connection_string, properties={"bootstrap.servers": "10.1.2.3:9093", "ssl.ca.location": "/ca.pem"}
    )
    properties = endpoint.client_properties()
    assert (properties["bootstrap.servers"], properties["ssl.ca.location"]) == ("10.1.2.3:9093", "/ca.pem")
    assert endpoint.name == "unit-test.servicebus.windows.net"
    local = {"bootstrap.servers": "127.0.0.1:9092", "security.protocol": "SASL_PLAINTEXT"}
    endpoint = Endpoint.connection_string(connection_string, properties=local)
    assert endpoint.client_properties()["security.protocol"] == "SASL_PLAINTEXT"


@pytest.mark.parametrize(
    ("properties", "shown"),
    [
        ({"security.protocol": "SASL_PLAINTEXT"}, "would send the access key unencrypted"),
        (
            {"security.protocol": "plaintext", "bootstrap.servers": "10.0.0.1:9092"},
            "would send the access key",
        ),
        (
            {"security.protocol": "SASL_PLAINTEXT", "bootstrap.servers": "localhost,broker.example.test"},
            "would send the access key",
        ),
        ({"sasl.password": "{key}"}, "the connection string already sets sasl.password"),
        ({"sasl.username": "{key}"}, "the connection string already sets sasl.username"),
        ({"sasl.mechanism": "PLAIN"}, "the connection string already sets sasl.mechanisms"),
        ({"bootstrap.servers": "{string}"}, "contains a connection string"),
    ],
)
def test_the_key_goes_nowhere_unprotected(
    properties: dict[str, str], shown: str, connection_string: str, key: str, assert_hidden: Hidden
) -> None:
    """Settings that would send the key in the clear, or replace it, are refused without showing it."""
    given = {
        name: value.format(key=key, string=connection_string) if "{" in value else value
        for name, value in properties.items()
    }
    with pytest.raises(ConfigurationError, match=shown) as caught:
        Endpoint.connection_string(connection_string, properties=given)
    assert_hidden(key, caught.value)


def test_no_view_of_an_endpoint_shows_its_secret(
    connection_string: str, key: str, assert_hidden: Hidden
) -> None:
    """repr, str, and the name and kind for logs and pages are free of the key; so is its list of fields."""
    for endpoint in (
        Endpoint.connection_string(connection_string),
        Endpoint.kafka("localhost:9092", {"sasl.password": key, "ssl.key.pem": key}),
    ):
        assert_hidden(key, endpoint, endpoint.name, endpoint.kind, [endpoint], f"{endpoint}")
        assert_hidden(key, dataclasses.asdict(endpoint), dataclasses.astuple(endpoint))
    assert repr(Endpoint.kafka("localhost:9092")) == "<Endpoint kafka localhost>"


def test_an_endpoint_is_not_pickled(connection_string: str) -> None:
    """A pickle would carry the key to a file or queue, so every kind of endpoint refuses and says why."""
    for endpoint in (
        Endpoint.connection_string(connection_string),
        Endpoint.kafka("localhost:9092"),
        Endpoint.embedded(),
    ):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            with pytest.raises(TypeError, match="make it in the process that uses it"):
                pickle.dumps(endpoint, protocol)
        assert copy.copy(endpoint) is copy.deepcopy(endpoint) is endpoint


def test_close_and_prepare_do_nothing_where_there_is_no_broker_of_ours() -> None:
    """An endpoint that only describes a broker has nothing to stop and creates no topics."""
    with Endpoint.kafka("localhost:1") as endpoint:
        endpoint.prepare_topics(["readings"])
        endpoint.close()
    assert endpoint.client_properties() == {"bootstrap.servers": "localhost:1"}
