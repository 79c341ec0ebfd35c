"""confluent-kafka's deserialisers as decoders: by the client's own mock registry, and by one that fails."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.rpc.http_pb2 import HttpHeader

import ehkafka
from ehkafka.codecs.confluent import ConfluentCodec
from ehkafka.handlers.arguments import payload_of
from ehkafka.records import Record
from tests.kit.registry_double import running_registry
from tests.kit.simulated.message import SimulatedMessage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kit.registry_double import RegistryDouble

AVRO = json.dumps({"type": "record", "name": "Reading", "fields": [{"name": "celsius", "type": "double"}]})
JSON = json.dumps({"title": "Reading", "type": "object", "properties": {"celsius": {"type": "number"}}})
WHERE = SerializationContext("readings", MessageField.VALUE)


@dataclass
class Reading:
    """A payload."""

    celsius: float


@dataclass
class Whole:
    """A payload that the schema's values do not fit."""

    celsius: int


def plain(reading) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001, D103
def typed(reading: Reading) -> None: ...  # noqa: D103
def misfitting(reading: Whole) -> None: ...  # noqa: D103
def message(text: HttpHeader) -> None: ...  # noqa: D103


def record(value: bytes | None, headers: Any = None) -> Record:
    """Return a record with this value."""
    return Record(SimulatedMessage("readings", 0, 0, b"a", value, headers=headers))


def decoded(function: Any, decoder: Any, value: bytes | None) -> Any:
    """Return what a handler is given."""
    payload = payload_of(function, decoder=decoder)
    assert payload is not None
    return payload.decoder()(record(value))


@pytest.fixture
def client() -> SchemaRegistryClient:
    """Return a client of its own mock registry."""
    return SchemaRegistryClient.new_client({"url": "mock://"})


def test_avro_by_its_schema(client: SchemaRegistryClient) -> None:
    """A dict, or the type of the annotation made of it."""
    value = AvroSerializer(client, AVRO)({"celsius": 1.5}, WHERE)
    decoder = AvroDeserializer(client)
    assert decoded(plain, decoder, value) == {"celsius": 1.5}
    assert decoded(typed, decoder, value) == Reading(1.5)
    with pytest.raises(
        ehkafka.RejectRecord, match=r"does not fit Whole: celsius: Expected `int`, got `float`"
    ):
        decoded(misfitting, decoder, value)


def test_json_schema_by_its_schema(client: SchemaRegistryClient) -> None:
    """What breaks the schema is rejected, with the rule and without the value."""
    value = JSONSerializer(JSON, client)({"celsius": 1.5}, WHERE)
    assert value is not None
    decoder = JSONDeserializer(JSON, schema_registry_client=client)
    assert decoded(plain, decoder, value) == {"celsius": 1.5}
    assert decoded(typed, decoder, value) == Reading(1.5)
    with pytest.raises(
        ehkafka.RejectRecord, match=r"\$\.celsius: it does not fulfil the schema's type"
    ) as caught:
        decoded(plain, decoder, value[:5] + b'{"celsius": "hunter2"}')
    assert "hunter2" not in str(caught.value)


def test_protobuf_gives_its_message(client: SchemaRegistryClient) -> None:
    """The class that protoc made is the annotation."""
    value = ProtobufSerializer(HttpHeader, client)(HttpHeader(key="warm"), WHERE)
    assert value is not None
    decoder = ProtobufDeserializer(HttpHeader, schema_registry_client=client)
    assert decoded(message, decoder, value) == HttpHeader(key="warm")
    with pytest.raises(ehkafka.RejectRecord, match="does not fit ProtobufDeserializer"):
        decoded(message, decoder, value[:6] + b"\x0a\xff\xff")


@pytest.mark.parametrize(
    "value", [b"", b"hunter2 hunter2", b"\x00\x00\x00\x00\x01", b"\x00\x00\x00\x00\x01\xff"]
)
def test_bytes_without_a_schema_are_rejected(client: SchemaRegistryClient, value: bytes) -> None:
    """Or with one that they do not follow."""
    AvroSerializer(client, AVRO)({"celsius": 1.5}, WHERE)
    with pytest.raises(ehkafka.RejectRecord) as caught:
        decoded(plain, AvroDeserializer(client), value)
    assert "hunter2" not in str(caught.value)


def test_an_unknown_schema_is_rejected(client: SchemaRegistryClient) -> None:
    """It will not be known by asking again."""
    with pytest.raises(ehkafka.RejectRecord, match="the schema registry does not have the payload's schema"):
        decoded(plain, AvroDeserializer(client), b"\x00\x00\x00\x03\xe7hunter2")


def test_a_record_without_value_is_no_business_of_a_registrys(client: SchemaRegistryClient) -> None:
    """As for every other type."""
    with pytest.raises(ehkafka.RejectRecord, match="no value"):
        decoded(plain, AvroDeserializer(client), None)


@pytest.fixture
def registry() -> Iterator[RegistryDouble]:
    """Run a registry that knows one schema."""
    with running_registry() as registry:
        registry.schemas["7"] = ("Avro", AVRO)
        yield registry


VALUE = b"\x00\x00\x00\x00\x07" + b"\x00" * 6 + b"\xf8?"


def failing(registry: RegistryDouble, **settings: Any) -> AvroDeserializer:
    """Return a deserialiser of the double."""
    settings = {"url": f"http://127.0.0.1:{registry.port}", "max.retries": 0, **settings}
    return AvroDeserializer(SchemaRegistryClient(settings))


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
def test_a_registry_that_refuses_is_asked_later(registry: RegistryDouble, status: int) -> None:
    """Nothing is lost, whatever the failure policy; the error shows nothing of the answer."""
    decoder = failing(registry)
    registry.status = status
    with pytest.raises(
        ehkafka.RetryLater, match=f"gives no usable answer: it answered with HTTP status {status}"
    ) as caught:
        decoded(plain, decoder, VALUE)
    assert "hunter2" not in str(caught.value)
    registry.status = 200
    assert decoded(plain, decoder, VALUE) == {"celsius": 1.5}


def test_an_answer_that_is_none_is_no_fault_of_the_payloads(registry: RegistryDouble) -> None:
    """A proxy's page instead of JSON."""
    decoder = failing(registry)
    registry.garbage = b"<html>log in, please</html>"
    with pytest.raises(ehkafka.RetryLater, match="the schema registry gives no usable answer"):
        decoded(plain, decoder, VALUE)


def test_a_registry_that_is_down_is_asked_later() -> None:
    """And the address, which may hold a password, is not shown."""
    with running_registry() as gone:
        pass
    decoder = failing(gone, **{"basic.auth.user.info": "me:hunter2"})
    with pytest.raises(ehkafka.RetryLater, match="gives no usable answer: ConnectError") as caught:
        decoded(plain, decoder, VALUE)
    assert str(gone.port) not in str(caught.value)


def test_an_unknown_schema_is_asked_for_once_in_a_while(registry: RegistryDouble) -> None:
    """A producer that names it in each record slows nothing down; another id is asked for."""
    payload = payload_of(plain, decoder=failing(registry))
    assert payload is not None
    for schema_id, times in ((b"\x08", 3), (b"\x09", 1)):
        for _ in range(times):
            with pytest.raises(ehkafka.RejectRecord, match="does not have the payload's schema"):
                payload.decoder()(record(VALUE[:4] + schema_id + VALUE[5:]))
    assert len([path for path, _ in registry.asked if "/schemas/ids/" in path]) == 2
    assert payload.decoder()(record(VALUE)) == {"celsius": 1.5}


def test_what_is_kept_of_a_schemas_name_is_short(client: SchemaRegistryClient) -> None:
    """Else a header with a known id and a megabyte behind it would be kept as another name."""
    schema_id = client.register_schema("readings-value", Schema(AVRO, "AVRO"))
    codec = ConfluentCodec(AvroDeserializer(client))
    header = b"\x00" + schema_id.to_bytes(4, "big") + b"x" * 1_000_000
    given = Record(
        SimulatedMessage("readings", 0, 0, b"a", VALUE[5:], headers=[("__value_schema_id", header)])
    )
    assert codec.decode_message(given) == {"celsius": 1.5}
    assert [len(name) for name in codec._schemas.known] == [10]


def test_a_users_own_way_to_the_id_is_left_alone(client: SchemaRegistryClient) -> None:
    """No name is read out of bytes that have another meaning there."""
    schema_id = client.register_schema("readings-value", Schema(AVRO, "AVRO"))

    def find(payload: bytes, _context: Any, found: Any) -> io.BytesIO:
        found.id = schema_id
        return io.BytesIO(payload)

    codec = ConfluentCodec(AvroDeserializer(client, conf={"schema.id.deserializer": find}))
    assert codec.decode_message(record(b"\x00" * 6 + b"\xf8?")) == {"celsius": 1.5}
    assert not codec._schemas.known


def test_a_known_schema_is_not_asked_for_again(registry: RegistryDouble) -> None:
    """Whatever became of the registry."""
    decoder = failing(registry)
    assert decoded(plain, decoder, VALUE) == {"celsius": 1.5}
    asked = len(registry.asked)
    registry.status = 503
    assert decoded(plain, decoder, VALUE) == {"celsius": 1.5}
    assert len(registry.asked) == asked
