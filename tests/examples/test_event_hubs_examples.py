"""The examples for users of Event Hubs, against a Kafka broker that is entered as Event Hubs is."""

from __future__ import annotations

import importlib.util
import inspect
import logging
import re
import sys
import types
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from azure.eventhub import EventHubConsumerClient, PartitionContext
from azure.eventhub._pyamqp._encode import encode_value

from ehkafka.embedded.topics import produce
from ehkafka.testing.kafka.broker import KafkaBroker
from ehkafka.testing.kafka.properties import Listener
from ehkafka.testing.ports import free_ports
from tests.kit.amqp_events import ENQUEUED_MS, received
from tests.kit.brokers import running
from tests.kit.identity_endpoint import IdentityEndpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
MOVED_ENTRA = str(Path(__file__).with_name("moved_entra.py"))
KEY = "cmlnaHQtcmlnaHQtcmlnaHQtcmlnaHQ="
NEXT_KEY = "bmV4dC1uZXh0LW5leHQtbmV4dC1uZXh0"


def secret(hub: str = "", key: str = KEY) -> str:
    """Return a connection string of a namespace, or of one of its hubs."""
    name = "Endpoint=sb://home.servicebus.windows.net/;SharedAccessKeyName=app"
    return f"{name};SharedAccessKey={key}" + (f";EntityPath={hub}" if hub else "")


def emulator(port: str) -> str:
    """Return the emulator's connection string as it is where the emulator has another port."""
    name = f"Endpoint=sb://127.0.0.1:{port};SharedAccessKeyName=RootManageSharedAccessKey"
    return f"{name};SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    """Run a broker with each of the ways into Event Hubs, short of TLS, and all event hubs."""
    ports = free_ports(1)
    ways = {
        "namespace": Listener(users={"$ConnectionString": secret()}),
        "hub": Listener(users={"$ConnectionString": secret("readings")}),
        "emulator": Listener(users={"$ConnectionString": emulator(str(ports[0]))}, port=ports[0]),
        "entra": Listener(unsecured_tokens=True),
    }
    with running(KafkaBroker(listeners=ways)) as started:
        for topic in ("readings", "eh1", "alarms"):
            started.create_topic(topic, 1)
        yield started


@pytest.mark.broker
def test_a_connection_string_in_a_file_is_enough_and_its_key_may_change(
    broker: KafkaBroker, start_example: Callable[..., Any], tmp_path: Path
) -> None:
    """The string of a hub names the topic; the health page answers; the hook hears of a new key."""
    produce(broker.bootstrap, "readings", [("home-9", b'{"door": "open"}')])
    file, following = tmp_path / "secret", tmp_path / "following"
    file.write_text(secret("readings"))
    example = start_example(
        "examples/connection_string/app.py",
        EHKAFKA_CONNECTION_STRING_FILE=str(file),
        HEALTH_PORT="0",
        **moved_to(broker, "hub"),
    )
    example.wait_until(lambda text: "readings[0]@0 home-9 {'door': 'open'}" in text)
    address = re.search(r"health: (http://127\.0\.0\.1:\d+)", example.log)
    assert address is not None, example.log
    with urllib.request.urlopen(address[1], timeout=10.0) as answer:
        assert (answer.status, answer.read()) == (200, b"ok")
    following.write_text(secret("readings", NEXT_KEY))
    following.replace(file)
    example.wait_until(lambda text: f"readings: new access key from file {file}" in text)
    log = example.stop()
    assert KEY not in log
    assert NEXT_KEY not in log


@pytest.mark.parametrize(("hub", "topic"), [("", "readings"), ("doors", "doors")])
def test_a_connection_string_in_a_variable_names_the_topic_or_leaves_it(
    hub: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A string of the whole namespace will do as well; nothing is opened by an import."""
    monkeypatch.setenv("EHKAFKA_CONNECTION_STRING", secret(hub))
    app = imported("connection_string/app.py").app
    assert app.topics == (topic,)
    assert app.endpoint.name == "home.servicebus.windows.net"
    assert app.state == "new"
    assert not app.health().ok


@pytest.mark.broker
def test_the_managed_identity_is_the_only_credential(
    broker: KafkaBroker, start_example: Callable[..., Any]
) -> None:
    """The twelve lines as they are, with a token that is for the namespace; in order per home."""
    doors = [(home, door) for door in ("open", "shut", "open") for home in ("home-1", "home-2", "home-3")]
    produce(broker.bootstrap, "readings", [(home, f'{{"door": "{door}"}}') for home, door in doors])
    with IdentityEndpoint() as identity:
        example = start_example(
            "examples/managed_identity/app.py",
            command=(MOVED_ENTRA,),
            EHKAFKA_NAMESPACE="home",
            MOVED_TO=broker.bootstrap_for("entra"),
            **identity.environment(),
        )
        # The topic is shared: another test has put a home of its own into it.
        example.wait_until(lambda text: len(re.findall("doors: home-[123]: ", text)) >= len(doors))
        log = example.stop()
        assert {request.resource for request in identity.requests} == {"https://home.servicebus.windows.net"}
        assert not [token for token in identity.issued if token in log]
    for home in ("home-1", "home-2", "home-3"):
        reported = re.findall(f"doors: {home}: (.*)", log)
        assert reported == ["open, before unknown", "shut, before open", "open, before shut"]


@pytest.mark.broker
def test_the_emulator_needs_only_its_connection_string(
    broker: KafkaBroker, start_example: Callable[..., Any], run_script: Callable[..., str]
) -> None:
    """The emulator's string, here with another port, serves the producer and the app alike."""
    string = emulator(broker.bootstrap_for("emulator").rpartition(":")[2])
    produced = run_script("examples/emulator/produce.py", EHKAFKA_CONNECTION_STRING=string)
    assert produced == "produced 100 readings"
    example = start_example("examples/emulator/app.py", EHKAFKA_CONNECTION_STRING=string)
    example.wait_until(lambda text: text.count("emulator: eh1[") >= 100)
    example.stop()


def test_the_emulators_own_string_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a variable the example reads from the emulator where it usually is."""
    monkeypatch.delenv("EHKAFKA_CONNECTION_STRING", raising=False)
    endpoint = imported("emulator/app.py").endpoint
    properties = endpoint.client_properties()
    assert endpoint.kind == "emulator"
    assert properties["bootstrap.servers"] == "localhost:9092"
    assert properties["security.protocol"] == "SASL_PLAINTEXT"


@pytest.mark.broker
def test_before_and_after_say_the_same_of_an_event(
    broker: KafkaBroker,
    start_example: Callable[..., Any],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One event as the SDK received it, and as Event Hubs gives it to Kafka clients: the same lines."""
    # As an int of one byte 42 is two printable characters, which `auto` would take for text.
    properties = {"kind": "smoke", "severity": 42}
    body = b'{"room": "kitchen"}'

    caplog.set_level(logging.INFO, "alarms")
    context = mock.create_autospec(PartitionContext, instance=True)
    event = received(body, properties)
    assert event.enqueued_time == datetime.fromtimestamp(ENQUEUED_MS / 1000, UTC)
    before(monkeypatch).on_event(context, event)
    context.update_checkpoint.assert_called_once_with(event)
    expected = [record.getMessage() for record in caplog.records if record.name == "alarms"]
    assert expected[0] == "home-1: smoke 42 in the kitchen"
    assert expected[1] == "event 0 of 2023-11-14 22:13:20+00:00"

    annotated = {"x-opt-partition-key": amqp("home-1")}
    headers = annotated | {name: amqp(value) for name, value in properties.items()}
    produce(broker.bootstrap, "alarms", [(None, body)], headers=headers, timestamp_ms=ENQUEUED_MS)
    example = start_example(
        "examples/from_amqp_sdk/after.py",
        EHKAFKA_CONNECTION_STRING=secret(),
        **moved_to(broker, "namespace"),
    )
    example.wait_until(lambda text: "alarms: event 0" in text)
    assert re.findall(r" alarms: (.*)", example.stop()) == expected


def test_before_calls_the_sdk_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call of the old consumer fits the signatures of the azure-eventhub that is installed."""
    module = before(monkeypatch)
    client_class = mock.create_autospec(EventHubConsumerClient)
    client = client_class.from_connection_string.return_value
    client.__enter__.return_value = client
    monkeypatch.setattr(module, "EventHubConsumerClient", client_class)
    monkeypatch.setenv("EVENT_HUB_CONN_STR", secret())
    monkeypatch.setenv("AZURE_STORAGE_CONN_STR", "UseDevelopmentStorage=true")
    module.main()
    client.receive.assert_called_once_with(module.on_event, on_error=module.on_error, starting_position="-1")
    # The SDK takes any further keyword without a word, so a misspelt one would pass until here.
    for name in ("from_connection_string", "receive"):
        (call,) = getattr(client_class if name != "receive" else client, name).call_args_list
        assert set(call.kwargs) <= set(inspect.signature(getattr(EventHubConsumerClient, name)).parameters)
    module.on_error(None, OSError("no network"))


def moved_to(broker: KafkaBroker, way: str) -> dict[str, str]:
    """Return the variables that lead to the broker instead of to the namespace."""
    return {
        "EHKAFKA_PROPERTY_BOOTSTRAP_SERVERS": broker.bootstrap_for(way),
        "EHKAFKA_PROPERTY_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
    }


def imported(path: str) -> Any:
    """Import an example under a name of its own."""
    file = ROOT / "examples" / path
    spec = importlib.util.spec_from_file_location(f"example_{file.parent.name}_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def before(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import the old consumer; its checkpoint store is a package that nothing else here needs."""
    store = types.ModuleType("azure.eventhub.extensions.checkpointstoreblob")
    store.BlobCheckpointStore = mock.Mock()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, store.__name__, store)
    return imported("from_amqp_sdk/before.py")


def amqp(value: Any) -> bytes:
    """Return a value as an AMQP producer's application property comes to Kafka clients."""
    output = bytearray()
    encode_value(output, value)
    return bytes(output)
