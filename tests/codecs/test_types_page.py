"""The page of payload types: its blocks on schemas run as they stand there, with Avro in their topics."""

from __future__ import annotations

import json
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from azure.schemaregistry.encoder.avroencoder import AvroEncoder
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

import ehkafka
from ehkafka.testing import EmbeddedBroker
from tests.kit.pages import ROOT, blocks_of
from tests.kit.waiting import wait_until

CONFLUENT, AZURE = (
    block.text for block in blocks_of(ROOT / "docs" / "guides" / "types.md") if block.not_run is not None
)
FIELDS = [{"name": "home", "type": "string"}, {"name": "celsius", "type": "double"}]
SCHEMA = json.dumps({"type": "record", "name": "Reading", "fields": FIELDS})
VALUE = {"home": "home-1", "celsius": 21.5}


@dataclass
class Reading:
    """As on the page."""

    home: str
    celsius: float


class Client:
    """Azure's client of the one schema, which fails at first."""

    def __init__(self) -> None:
        self.asked = 0

    def get_schema(self, schema_id: str) -> Any:
        """Return it at the second question."""
        self.asked += 1
        if self.asked == 1:
            raise OSError("no answer")
        assert schema_id == "7"
        return SimpleNamespace(definition=SCHEMA)


def run(block: str, topic: str, value: bytes, headers: Any = None) -> Any:
    """Run a block's app until it has handled and committed a record; return the page's names."""
    with EmbeddedBroker({topic: 1}) as broker:
        endpoint = ehkafka.Endpoint.kafka(broker.bootstrap)
        app = ehkafka.App(group="g", endpoint=endpoint, start="earliest", commit_interval_s=0.1)
        given: list[Any] = []
        text = block.replace("-> None: ...", "-> None: given.append(reading)")
        exec(compile(text, "docs/guides/types.md", "exec"), {"app": app, "Reading": Reading, "given": given})
        broker.produce(topic, [(b"home-1", value)], partition=0, headers=headers)
        with app:
            wait_until(
                lambda: broker.committed("g", topic)[0] == 1, lambda: f"a commit ({app.health()})", 30.0
            )
    return given


def test_avro_by_a_confluent_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry of the page is the client's own mock."""
    mock = SchemaRegistryClient.new_client({"url": "mock://page"})
    value = AvroSerializer(mock, SCHEMA)(VALUE, SerializationContext("readings", MessageField.VALUE))
    assert value is not None
    monkeypatch.setattr("confluent_kafka.schema_registry.SchemaRegistryClient", lambda _settings: mock)
    assert run(CONFLUENT, "readings", value) == [Reading("home-1", 21.5)]


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_avro_by_azures_registry_which_does_not_answer_at_once(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record waits for it, and the app does not stop, as its failure policy would have it do."""
    known: Any = SimpleNamespace(get_schema_properties=lambda *_given: SimpleNamespace(id="7"))
    written: Any = AvroEncoder(client=known, group_name="group").encode(VALUE, schema=SCHEMA)
    client = Client()
    monkeypatch.setattr("ehkafka.codecs.azure.AzureSchemaRegistry._opened", lambda _registry: client)
    headers = [("content-type", written["content_type"].encode())]
    block = AZURE.replace("def handle_event", f"{kind} handle_event")
    assert run(block, "events", written["content"], headers) == [Reading("home-1", 21.5)]
    assert client.asked == 2
