"""Hostile payloads: whatever the codec, a handler gets a value, or its record is rejected in words."""

from __future__ import annotations

import dataclasses
import io
import json
import struct
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import fastavro
import msgspec
import pydantic
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from google.protobuf.struct_pb2 import Struct  # type: ignore[import-untyped]

from ehkafka.codecs import AzureSchemaRegistry
from ehkafka.handlers.arguments import payload_of
from ehkafka.records import Record
from ehkafka.records.signals import RejectRecord
from tests.kit.fuzz.target import Target, any_value, damaged
from tests.kit.simulated.message import SimulatedMessage

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from ehkafka.records import Headers

_FIELDS = [
    {"name": "home", "type": "string"},
    {"name": "open", "type": ["null", "boolean"]},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
    {"name": "inside", "type": ["null", "Reading"]},
    {"name": "tags", "type": {"type": "map", "values": {"type": "array", "items": "double"}}},
]
_AVRO = {"type": "record", "name": "Reading", "fields": _FIELDS}
_JSON_SCHEMA = {
    "type": "object",
    "properties": {"home": {"type": "string", "pattern": "^h"}, "open": {"type": "boolean"}},
    "required": ["home"],
}
_READING = {"home": "h1", "open": True, "at": 5, "tags": {"a": [1.5]}, "inside": None}


@dataclasses.dataclass
class Reading:
    """For msgspec."""

    home: str
    open: bool = False
    inside: Reading | None = None


class ReadingStruct(msgspec.Struct):
    """For msgspec, too."""

    home: str
    at: int = 0
    tags: dict[str, list[float]] = {}


class ReadingModel(pydantic.BaseModel):
    """For pydantic."""

    home: str
    open: bool | None = None
    inside: ReadingModel | None = None


def any_value_of(value) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001, D103
def an_object(value: dict[str, Any]) -> None: ...  # noqa: D103
def a_list(value: list[int]) -> None: ...  # noqa: D103
def a_text(value: str) -> None: ...  # noqa: D103
def a_dataclass(value: Reading) -> None: ...  # noqa: D103
def a_struct(value: ReadingStruct) -> None: ...  # noqa: D103
def a_model(value: ReadingModel) -> None: ...  # noqa: D103


class Codec(NamedTuple):
    """What decodes, a payload that it takes, and its content type."""

    decode: Callable[[Record], Any]
    whole: bytes
    content_type: bytes


@cache
def _codecs() -> dict[str, Codec]:
    client = SchemaRegistryClient.new_client({"url": "mock://fuzz"})
    number = {
        kind: client.register_schema(kind, Schema(json.dumps(schema), kind))
        for kind, schema in (("AVRO", _AVRO), ("JSON", _JSON_SCHEMA))
    }
    double = SimpleNamespace(get_schema=lambda _id: SimpleNamespace(definition=json.dumps(_AVRO)))
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(_AVRO), _READING | {"price": b"\x01"})
    avro, text = written.getvalue(), json.dumps(_READING).encode()
    of_protobuf = Struct()
    of_protobuf.update({"home": "h1", "inside": {"home": "h2"}})
    handlers = {one.__name__: one for one in (an_object, a_text, a_dataclass, a_struct, a_model)}
    found = {name: _codec(handler, None, text) for name, handler in handlers.items()}
    of_json = JSONDeserializer(None, schema_registry_client=client)
    return found | {
        "a_list": _codec(a_list, None, b"[1, 2, 3]"),
        "Avro, Confluent": _codec(
            any_value_of, AvroDeserializer(client), struct.pack(">bI", 0, number["AVRO"]) + avro
        ),
        "Avro, Azure": _codec(
            any_value_of, AzureSchemaRegistry(client=double), avro, b"avro/binary+" + b"1" * 32
        ),
        "JSON, Confluent": _codec(any_value_of, of_json, struct.pack(">bI", 0, number["JSON"]) + text),
        "Protobuf": _codec(any_value_of, Struct.FromString, of_protobuf.SerializeToString()),
    }


def _codec(handler: Any, decoder: Any, whole: bytes, content_type: bytes = b"") -> Codec:
    payload = payload_of(handler, decoder=decoder)
    assert payload is not None
    codec = Codec(payload.decoder(), whole, content_type)
    codec.decode(_record(codec, whole))
    return codec


def _record(codec: Codec, value: bytes) -> Record:
    headers: Headers = [("content-type", codec.content_type)] if codec.content_type else []
    return Record(SimulatedMessage("t", 0, 0, b"a", value, headers=headers))


def _payload(rng: random.Random) -> tuple[str, bytes]:
    name = rng.choice(list(_codecs()))
    whole = _codecs()[name].whole
    # A schema that no registry has is not asked for: its id stays.
    prefix = whole[:5] if name.endswith("Confluent") else b""
    match rng.randrange(6):
        case 0:
            return name, prefix + rng.randbytes(rng.randrange(60))
        case 1:
            return name, prefix + json.dumps(any_value(rng)).encode()
        case 2:
            fields = _READING | {rng.choice(list(_READING)): any_value(rng)}
            return name, prefix + json.dumps(fields).encode()
        case 3:
            return name, prefix + rng.choice((b"[", b'{"inside":', b"\x02", b"\xff")) * rng.choice(
                (50, 9_000)
            )
    return name, prefix + damaged(rng, whole[len(prefix) :], b'{}[]":,\x80\x02\x00\xff')


def _judge(given: tuple[str, bytes]) -> bool:
    codec = _codecs()[given[0]]
    try:
        codec.decode(_record(codec, given[1]))
    except RejectRecord:
        return False
    return True


TARGET: Final = Target("payloads: JSON, Avro, JSON Schema, Protobuf", _payload, _judge, 1_500)
