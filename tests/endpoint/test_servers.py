"""A list of servers, in each form that people give it, and the names of several consumers of a process."""

from __future__ import annotations

from typing import Any

import pytest

import ehkafka
from ehkafka.endpoint import client_name as names
from ehkafka.endpoint.drop_in import drop_in_properties, endpoint_of, with_servers
from ehkafka.errors import ConfigurationError

KAFKA = ehkafka.Endpoint.kafka("a:1")
HUBS = ehkafka.Endpoint.kafka("home.servicebus.windows.net:9093", {"security.protocol": "SASL_SSL"})
MEANT = "a:1,b:2"


@pytest.mark.parametrize("given", [MEANT, " a:1 , b:2\n", ["a:1", "b:2"], ("a:1 ", "b:2"), ["a:1,b:2"]])
def test_a_list_is_understood(given: Any) -> None:
    """By the endpoint, and in the drop-in's dict under both of librdkafka's names."""
    assert ehkafka.Endpoint.kafka(given).client_properties()["bootstrap.servers"] == MEANT
    for name in ("bootstrap.servers", "metadata.broker.list"):
        assert with_servers({name: given}) == {name: MEANT}
    assert ehkafka.Endpoint.kafka("a:1,b:2", {"bootstrap.servers": given}).kind == "kafka"


@pytest.mark.parametrize("given", ["a:1 b:2", "a:1;b:2", "['a:1', 'b:2']", [], [1], {"a:1"}, b"a:1", 9092])
def test_another_form_is_refused_in_one_sentence(given: Any) -> None:
    """confluent-kafka makes a text of it, and librdkafka looks for a host of that name without an end."""
    with pytest.raises(ConfigurationError, match=r"^bootstrap.servers[^.]+$|'host:port'"):
        ehkafka.Endpoint.kafka(given)
    with pytest.raises(ConfigurationError, match="give 'host:port,host:port' or"):
        ehkafka.Consumer({"bootstrap.servers": given, "group.id": "g"})


def test_a_list_with_a_namespace_gets_the_checks_of_the_service() -> None:
    """It is recognised in a list, too."""
    found = endpoint_of(with_servers({"bootstrap.servers": ["home.servicebus.windows.net:9093"]}))
    assert found is not None
    assert found.is_event_hubs


def test_consumers_of_one_process_have_names_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first has the process's name, later ones their number, and a name of the program's own stays."""
    monkeypatch.setattr(names, "_numbers", iter([1, 2, 3]))
    apps = [
        ehkafka.App(group="g", endpoint=KAFKA, start="earliest", consumer=consumer)
        for consumer in ({}, {}, {"client.id": "mine"})
    ]
    found = [app._options().consumer_properties()["client.id"] for app in apps[:2]]
    found.append(drop_in_properties(HUBS, {"group.id": "g"})["client.id"])
    assert found == [names.client_name(), f"{names.client_name()}-2", f"{names.client_name()}-3"]
    assert apps[1]._options().consumer_properties()["client.id"] == found[1]
    assert drop_in_properties(HUBS, {"group.id": "g", "client.id": "mine"})["client.id"] == "mine"
    monkeypatch.setattr(names, "_numbers", iter([4]))
    assert apps[2]._options().consumer_properties()["client.id"] == "mine"
