"""Azure Schema Registry: what Microsoft's encoders write is decoded, by a double of its REST on this machine.

No live registry was tried: the double answers as the client of azure-schemaregistry expects it.
"""

from __future__ import annotations

import json
import pickle
import sys
import time
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import trustme
from azure.core.credentials import AccessToken
from azure.schemaregistry import SchemaRegistryClient
from azure.schemaregistry.encoder.avroencoder import AvroEncoder
from azure.schemaregistry.encoder.jsonencoder import JsonSchemaEncoder

import ehkafka
from ehkafka.codecs import AzureSchemaRegistry
from ehkafka.codecs.schemas import RETRY_S, SCHEMAS_MAX, UNKNOWN_S
from ehkafka.errors import MissingExtraError
from ehkafka.handlers.arguments import payload_of
from ehkafka.records import Record
from tests.kit.registry_double import running_registry
from tests.kit.simulated.message import SimulatedMessage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.registry_double import RegistryDouble

AVRO_ID = "a1b2c3d4e5f60718293a4b5c6d7e8f90"
JSON_ID = "0918273645afbecd0918273645afbecd"
FIELDS = [{"name": "sensor", "type": "string"}, {"name": "celsius", "type": ["null", "double"]}]
AVRO = json.dumps({"type": "record", "name": "Reading", "namespace": "home", "fields": FIELDS})
DRAFT = "https://json-schema.org/draft/2020-12/schema"
PROPERTIES = {"sensor": {"type": "string"}, "celsius": {"type": ["number", "null"]}}
JSON = json.dumps({"$schema": DRAFT, "title": "Reading", "type": "object", "properties": PROPERTIES})
VALUE = {"sensor": "hall", "celsius": 1.5}


@dataclass
class Reading:
    """A payload."""

    sensor: str
    celsius: float | None


def plain(reading) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001, D103
def typed(reading: Reading) -> None: ...  # noqa: D103


class Credential:
    """A credential whose token is not checked."""

    def get_token(self, *_scopes: str, **_options: Any) -> AccessToken:
        """Return one."""
        return AccessToken("a-token-of-tests", int(time.time()) + 3600)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """Return an authority of our own."""
    return trustme.CA()


@pytest.fixture
def double(authority: trustme.CA) -> Iterator[RegistryDouble]:
    """Run a registry that knows two schemas."""
    with running_registry(authority.issue_cert("127.0.0.1")) as double:
        double.schemas = {AVRO_ID: ("Avro", AVRO), JSON_ID: ("Json", JSON)}
        yield double


@pytest.fixture
def registry(double: RegistryDouble, authority: trustme.CA, tmp_path: Path) -> Iterator[AzureSchemaRegistry]:
    """Return a decoder of it."""
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    trusted = str(tmp_path / "ca.pem")
    address = f"127.0.0.1:{double.port}"
    with SchemaRegistryClient(address, Credential(), connection_verify=trusted, retry_total=0) as client:
        yield AzureSchemaRegistry(client=client)


def encoded(kind: str = "avro", value: Any = None) -> tuple[bytes, str]:
    """Return payload and content type as Microsoft's encoder writes them."""
    schema_id = AVRO_ID if kind == "avro" else JSON_ID
    known: Any = SimpleNamespace(get_schema_properties=lambda *_given: SimpleNamespace(id=schema_id))
    if kind == "avro":
        written: Any = AvroEncoder(client=known, group_name="group").encode(value or VALUE, schema=AVRO)
    else:
        encoder = JsonSchemaEncoder(client=known, group_name="group", validate=DRAFT)
        written = encoder.encode(value or VALUE, schema=JSON)
    return written["content"], written["content_type"]


def record(value: bytes, content_type: str | None, name: str = "content-type") -> Record:
    """Return a record with this header."""
    headers = None if content_type is None else [(name, content_type.encode())]
    return Record(SimulatedMessage("readings", 0, 0, b"a", value, headers=headers))


def decoded(decoder: Any, given: Record, function: Any = plain) -> Any:
    """Return what a handler is given."""
    payload = payload_of(function, decoder=decoder)
    assert payload is not None
    return payload.decoder()(given)


@pytest.mark.parametrize("kind", ["avro", "json"])
def test_what_the_encoders_write_is_decoded(
    registry: AzureSchemaRegistry, double: RegistryDouble, kind: str
) -> None:
    """As a dict, or as the type of the annotation; with the credential's token, and asked for once."""
    given = record(*encoded(kind))
    assert decoded(registry, given) == VALUE
    assert decoded(registry, given, typed) == Reading("hall", 1.5)
    (path, headers), *more = double.asked
    assert not more
    assert path == f"/$schemaGroups/$schemas/{AVRO_ID if kind == 'avro' else JSON_ID}?api-version=2022-10"
    assert headers["authorization"] == "Bearer a-token-of-tests"


def test_the_header_is_read_as_producers_write_it(registry: AzureSchemaRegistry) -> None:
    """In any case of letters and with spaces, as AMQP's property and Kafka's header have it."""
    value, content_type = encoded()
    assert decoded(registry, record(value, content_type, "Content-Type")) == VALUE
    value, content_type = encoded("json")
    spaced = content_type.replace(";", "; ").replace("Json", "json")
    assert decoded(registry, record(value, spaced)) == VALUE


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "application/json",
        "avro/binary",
        "avro/binary+",
        f"text/plain+{AVRO_ID}",
        "avro/binary+../x",
        "+",
    ],
)
def test_a_record_that_names_no_schema_is_rejected(
    registry: AzureSchemaRegistry, double: RegistryDouble, content_type: str | None
) -> None:
    """And nothing of what it names becomes part of an address."""
    with pytest.raises(
        ehkafka.RejectRecord, match=r"its content-type header names no schema \(expected: avro/binary"
    ):
        decoded(registry, record(b"hunter2", content_type))
    assert not double.asked


def test_an_unknown_schema_is_rejected_and_not_asked_for_at_each_record(
    registry: AzureSchemaRegistry, double: RegistryDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a while: a program may register it."""
    now_s = time.monotonic()
    monkeypatch.setattr("ehkafka.codecs.schemas.time.monotonic", lambda: now_s)
    given = record(b"hunter2", f"avro/binary+{'0' * 32}")
    for _ in range(3):
        with pytest.raises(ehkafka.RejectRecord, match=r"the schema registry has no schema 0{32}"):
            decoded(registry, given)
    assert len(double.asked) == 1
    now_s += UNKNOWN_S + 1
    double.schemas["0" * 32] = ("Avro", AVRO)
    assert decoded(registry, record(encoded()[0], f"avro/binary+{'0' * 32}")) == VALUE


@pytest.mark.parametrize("status", [401, 403, 408, 429, 500, 503])
def test_a_registry_that_refuses_is_asked_later(
    registry: AzureSchemaRegistry,
    double: RegistryDouble,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is lost whatever the failure policy; not every record asks; nothing of the answer is shown."""
    now_s = time.monotonic()
    monkeypatch.setattr("ehkafka.codecs.schemas.time.monotonic", lambda: now_s)
    given = record(*encoded())
    double.status = status
    for _ in range(3):
        with pytest.raises(ehkafka.RetryLater, match="the schema registry ") as caught:
            decoded(registry, given)
        assert "hunter2" not in str(caught.value)
        assert caught.value.after_s == RETRY_S
    assert len(double.asked) == 1
    double.status = 200
    now_s += RETRY_S
    assert decoded(registry, given) == VALUE


def test_a_registry_that_is_down_is_asked_later(authority: trustme.CA) -> None:
    """A lost connection is no fault of the payload's."""
    with running_registry(authority.issue_cert("127.0.0.1")) as gone:
        pass
    client = SchemaRegistryClient(f"127.0.0.1:{gone.port}", Credential(), retry_total=0)
    with client, pytest.raises(ehkafka.RetryLater, match="gives no usable answer: ServiceRequestError"):
        decoded(AzureSchemaRegistry(client=client), record(*encoded()))


def test_what_breaks_its_schema_is_rejected_without_being_shown(registry: AzureSchemaRegistry) -> None:
    """Bytes that Avro cannot read, and JSON that its schema refuses."""
    value, content_type = encoded()
    with pytest.raises(
        ehkafka.RejectRecord, match=r"does not fit its schema in Azure's registry: "
    ) as caught:
        decoded(registry, record(value[:3], content_type))
    assert "hall" not in str(caught.value)
    _, content_type = encoded("json")
    with pytest.raises(
        ehkafka.RejectRecord, match=r"\$\.celsius: it does not fulfil the schema's type"
    ) as caught:
        decoded(registry, record(b'{"sensor": "a", "celsius": "hunter2"}', content_type))
    assert "hunter2" not in str(caught.value)


def test_a_schema_of_another_format_is_a_reason(
    registry: AzureSchemaRegistry, double: RegistryDouble
) -> None:
    """No program can read it."""
    double.schemas[AVRO_ID] = ("Avro", "hunter2")
    with pytest.raises(ehkafka.RejectRecord, match=f"its schema {AVRO_ID} is not a valid Avro schema"):
        decoded(registry, record(*encoded()))


def test_schemas_that_are_kept_are_bounded(registry: AzureSchemaRegistry) -> None:
    """A producer may name as many as it likes."""
    opened = registry._opened()
    opened.get_schema = lambda schema_id: SimpleNamespace(definition=AVRO)
    for number in range(SCHEMAS_MAX + 50):
        decoded(registry, record(encoded()[0], f"avro/binary+{number}"))
    assert len(registry._schemas.known) == SCHEMAS_MAX


def test_it_goes_to_other_processes_by_its_namespace() -> None:
    """A client does not."""
    registry = AzureSchemaRegistry("home.servicebus.windows.net")
    assert repr(pickle.loads(pickle.dumps(registry))) == repr(registry)
    with pytest.raises(TypeError, match="a schema registry client cannot be sent"):
        pickle.dumps(AzureSchemaRegistry(client=object()))


@pytest.mark.parametrize("package", ["azure.schemaregistry", "fastavro", "jsonschema"])
def test_a_missing_package_is_named_at_once(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to install."""
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=r"pip install .*'fastavro<"):
        AzureSchemaRegistry("home.servicebus.windows.net")
