"""A namespace's certificate and host name are checked, in every way in; on this machine they need not be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

import ehkafka
from ehkafka.cli.commands import cli
from ehkafka.consumer.internals import Internals
from ehkafka.consumer.program_settings import flattened
from ehkafka.endpoint import Endpoint
from ehkafka.endpoint.properties.layers import consumer_properties, letter_properties, producer_properties
from ehkafka.errors import ConfigurationError
from ehkafka.spark.source.options import options_from

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KEY = "c2VjcmV0a2V5"
HOST = "home.servicebus.windows.net"
ADDRESS = f"{HOST}:9093"
STRING = f"Endpoint=sb://{HOST}/;SharedAccessKeyName=n;SharedAccessKey={KEY}"
PROXY = "proxy.example:9093"
BY_KEY = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanisms": "PLAIN",
    "sasl.username": "$ConnectionString",
    "sasl.password": STRING,
}
VERIFICATION, HOST_NAME = "enable.ssl.certificate.verification", "ssl.endpoint.identification.algorithm"
FOR_TESTS = "UseDevelopmentEmulator=true"
EMULATOR = f"Endpoint=sb://emulator;SharedAccessKeyName=n;SharedAccessKey=k;{FOR_TESTS}"
# Each spelling that librdkafka takes for it.
OFF = [(VERIFICATION, value) for value in (False, "false", "FALSE", "f", "0")] + [
    (HOST_NAME, value) for value in ("none", "None", " none")
]


class Spelt:
    """An object of a program's own, whose text confluent-kafka hands on."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


def of_app(endpoint: Endpoint, given: dict[str, Any]) -> object:
    """Return what an app's consumer is made of."""
    return consumer_properties(endpoint, "g", given, assignor="default", instance_id=None)


def drop_in(config: dict[str, Any], endpoint: Endpoint | None = None) -> None:
    """Make what a consumer is made of: what is accepted would look for its broker."""
    Internals(flattened({"group.id": "g", **config}, {}), {"endpoint": endpoint})


WAYS: dict[str, Callable[[dict[str, Any]], object]] = {
    "kafka": lambda p: Endpoint.kafka(ADDRESS, {**BY_KEY, **p}),
    "kafka, by a proxy": lambda p: Endpoint.kafka(PROXY, {**BY_KEY, **p}),
    "kafka, one of two": lambda p: Endpoint.kafka(f"localhost:9093,{ADDRESS}", p),
    "connection string": lambda p: Endpoint.connection_string(STRING, properties=p),
    "connection string, by a proxy": lambda p: Endpoint.connection_string(
        STRING, properties={"bootstrap.servers": PROXY, **p}
    ),
    "callable": lambda p: Endpoint.connection_string(lambda: STRING, properties=p),
    "entra": lambda p: Endpoint.entra("home", "cli", properties=p),
    "environment": lambda p: Endpoint.from_env(
        {"EHKAFKA_CONNECTION_STRING": STRING}
        | {f"EHKAFKA_PROPERTY_{name.upper().replace('.', '_')}": str(value) for name, value in p.items()}
    ),
    "app": lambda p: of_app(Endpoint.connection_string(STRING), p),
    "app, by a proxy": lambda p: of_app(Endpoint.kafka(PROXY, BY_KEY), p),
    "producer": lambda p: producer_properties(Endpoint.entra("home", "cli"), p),
    "drop-in": lambda p: drop_in({"bootstrap.servers": ADDRESS, **BY_KEY, **p}),
    "drop-in, second name": lambda p: drop_in({"metadata.broker.list": ADDRESS, **BY_KEY, **p}),
    "drop-in, by a proxy": lambda p: drop_in({"bootstrap.servers": PROXY, **BY_KEY, **p}),
    "drop-in, an empty entry": lambda p: drop_in({"bootstrap.servers": f"{ADDRESS},", **p}),
    "drop-in, two names": lambda p: drop_in(
        {"bootstrap.servers": "localhost:9093", "metadata.broker.list": ADDRESS, **p}
    ),
    "drop-in, nested twice": lambda p: drop_in(
        {"bootstrap.servers": PROXY, **BY_KEY, "default.topic.config": {"default.topic.config": p}}
    ),
    "drop-in, the emulator's word": lambda p: drop_in(
        {
            "bootstrap.servers": ADDRESS,
            **BY_KEY,
            "sasl.password": f"{STRING};UseDevelopmentEmulator=true",
            **p,
        }
    ),
    "drop-in, objects": lambda p: drop_in(
        {"bootstrap.servers": Spelt(PROXY), **BY_KEY, "sasl.username": Spelt("$ConnectionString"), **p}
    ),
    "the emulator, elsewhere": lambda p: Endpoint.connection_string(
        f"{EMULATOR}", properties={"bootstrap.servers": ADDRESS, "security.protocol": "SASL_SSL", **p}
    ),
    "drop-in, endpoint": lambda p: drop_in(p, endpoint=Endpoint.connection_string(STRING)),
    "Spark": lambda p: options_from(
        {"kafka.bootstrap.servers": ADDRESS, "subscribe": "t"}
        | {f"kafka.{name}": str(value) for name, value in p.items()}
    ).endpoint.endpoint(),
}


@pytest.mark.parametrize("way", WAYS)
def test_an_unchecked_namespace_is_refused(way: str) -> None:
    """A server in between would get the key; the sentence names the property and shows no key."""
    for name, value in OFF:
        with pytest.raises(ConfigurationError, match=f"{name}=.* is refused: a machine between") as refused:
            WAYS[way]({name: value})
        assert "ssl.ca.location" in str(refused.value)
        assert KEY not in str(refused.value)


@pytest.mark.parametrize("kind", [ehkafka.Consumer, ehkafka.DeserializingConsumer])
def test_a_consumer_is_refused_before_it_opens(kind: Any) -> None:
    """The drop-ins themselves."""
    with pytest.raises(ConfigurationError, match="a machine between"):
        kind({"bootstrap.servers": ADDRESS, "group.id": "g", **BY_KEY, VERIFICATION: False})


@pytest.mark.parametrize("way", sorted(WAYS.keys() - {"drop-in, two names"}))
def test_a_checked_namespace_is_not(way: str) -> None:
    """Said in words, the checks change nothing; nor do entries that librdkafka passes over."""
    WAYS[way]({VERIFICATION: True, HOST_NAME: "https"})


def test_two_names_with_two_addresses_are_refused() -> None:
    """Which one counts depends on their order."""
    with pytest.raises(ConfigurationError, match="given twice with different values"):
        WAYS["drop-in, two names"]({})


@pytest.mark.parametrize(
    "servers", ["127.0.0.1:9,", ",127.0.0.1:9", "localhost.:9093", "x.localhost", "[::1]:9"]
)
def test_what_is_this_machine(servers: str) -> None:
    """In the spellings that librdkafka and a resolver take."""
    drop_in({"bootstrap.servers": servers, **BY_KEY, VERIFICATION: False})


@pytest.mark.parametrize(("name", "value"), OFF)
def test_on_this_machine_and_elsewhere_it_goes(name: str, value: Any) -> None:
    """A tunnel's certificate is its own, the emulator has none, and other brokers are not ours to judge."""
    given = {name: value}
    tunnel = {"bootstrap.servers": "localhost:9093"}
    Endpoint.connection_string(STRING, properties={**tunnel, **given})
    Endpoint.entra("home", "cli", properties={**tunnel, **given})
    of_app(Endpoint.connection_string(STRING, properties=tunnel), given)
    letter_properties(Endpoint.kafka("127.0.0.1:9093", {**BY_KEY, **given}), {})
    drop_in({**tunnel, **BY_KEY, **given})
    of_app(Endpoint.connection_string(EMULATOR), given)
    of_app(Endpoint.kafka("kafka.example:9093", {"security.protocol": "SSL"}), given)
    drop_in({"bootstrap.servers": "kafka.example:9093", "security.protocol": "SSL", **given})


COMMANDS = [
    ["tail", "t"],
    ["lag", "t", "--group", "g"],
    ["owners", "t", "--group", "g"],
    ["dlq", "list", "t"],
    ["dlq", "show", "t", "0@0"],
    ["dlq", "redrive", "t"],
    ["offsets", "reset", "t", "--to", "earliest", "--group", "g"],
    ["check"],
    ["config"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("by_file", [False, True], ids=["variables", "file"])
def test_commands_refuse_it_too(
    command: list[str], by_file: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One line on stderr and exit code 2, from variables or a settings file that was asked for."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EHKAFKA_CONNECTION_STRING", STRING)
    if by_file:
        monkeypatch.delenv("EHKAFKA_CONNECTION_STRING")
        (tmp_path / "key").write_text(STRING)
        (tmp_path / "key").chmod(0o600)
        (tmp_path / "e.toml").write_text(
            f'[endpoint]\nconnection_string_file = "{tmp_path}/key"\n'
            '[endpoint.properties]\n"enable.ssl.certificate.verification" = "false"\n'
        )
        command = [*command, "--config", "e.toml"]
    else:
        monkeypatch.setenv("EHKAFKA_PROPERTY_ENABLE_SSL_CERTIFICATE_VERIFICATION", "false")
    done = CliRunner().invoke(cli, command)
    assert done.exit_code == 2, done.output
    assert "is refused: a machine between" in " ".join(done.stderr.split())
    assert KEY not in done.output
