"""Payloads that end a process, or take its memory or its hours, where their decoders have no bounds.

Run as a program: prints for each what its handler would see, as one line of JSON. The memory is limited.
"""

from __future__ import annotations

import dataclasses
import json
import resource
import struct
import sys
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pydantic
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from google.protobuf.struct_pb2 import Value

from ehkafka.codecs import AzureSchemaRegistry, validating
from ehkafka.handlers.arguments import payload_of
from ehkafka.records import Record
from tests.kit.simulated.message import SimulatedMessage

if TYPE_CHECKING:
    from collections.abc import Iterator

MEMORY_BYTES = 2 << 30
LONG = 300_000


def number(value: int) -> bytes:
    """Return a number as Avro writes it."""
    return varint((value << 1) ^ (value >> 63))


def varint(value: int) -> bytes:
    """Return a number in bytes of seven bits."""
    written = bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    return bytes([*written, value])


def node(of: Any) -> dict[str, Any]:
    """Return a record with one field."""
    return {"type": "record", "name": "N", "fields": [{"name": "next", "type": of}]}


def named(count: int, fields: int) -> dict[str, Any]:
    """Return records of which each has the one before as so many fields."""
    kinds: list[Any] = [{"type": "record", "name": "R0", "fields": [{"name": "a", "type": "null"}]}]
    for at in range(1, count):
        inner = [{"name": f"f{one}", "type": f"R{at - 1}"} for one in range(fields)]
        kinds.append({"type": "record", "name": f"R{at}", "fields": inner})
    branches = [{"name": f"u{at}", "type": ["null", kind]} for at, kind in enumerate(kinds)]
    return {"type": "record", "name": "All", "fields": branches}


EMPTY = {"type": "record", "name": "E", "fields": []}
DECIMAL = node({"type": "bytes", "logicalType": "decimal", "precision": 10})
NULLS = {"type": "array", "items": "null"}
AVRO: dict[str, tuple[Any, bytes]] = {
    "a type within itself": (node(["null", "N"]), b"\x02" * 6_001 + b"\x00"),
    "a type within itself without a byte": (node("N"), b"\x00"),
    "arrays of itself": (node({"type": "array", "items": "N"}), b"\x02" * 9_000),
    "maps of itself": (node({"type": "map", "values": "N"}), b"\x02\x00" * 9_000),
    "a chain of types": (named(2_000, 1), b"\x00" * 1_999 + b"\x02"),
    "types that double": (named(60, 2), b"\x00" * 59 + b"\x02"),
    "nulls": (NULLS, number(10**9) + b"\x00"),
    "nulls in a block of a length": (NULLS, number(-(10**9)) + b"\x00\x00"),
    "empty records": ({"type": "array", "items": EMPTY}, number(10**9) + b"\x00"),
    "nothing of a fixed length": (
        {"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}},
        number(10**9) + b"\x00",
    ),
    "many keys": ({"type": "map", "values": "null"}, number(10**9) + b"\x00"),
    "a long decimal": (DECIMAL, number(LONG) + b"\x7f" * LONG),
    "a long text": ("string", number(2**62) + b"a"),
    "a negative length": (node(["null", "N", "bytes"]), b"\x04\x01"),
    "a number without an end": (node(["null", "N"]), b"\xff" * 11),
    "a block that lies": (node({"type": "array", "items": "N"}), b"\x01\x7e\x00\x00"),
}
BRANCH = {"type": "object", "properties": {"left": {"$ref": "#"}}}
TREE = {"oneOf": [{**BRANCH, "required": ["and"]}, {**BRANCH, "required": ["or"]}]}
NAMES = {f"{'a' * 40}{at}!": 1 for at in range(3)}
JSON: dict[str, tuple[Any, Any]] = {
    "deep JSON": ({"type": "array"}, b"[" * LONG + b"]" * LONG),
    "an exponential pattern": ({"type": "string", "pattern": "^(a|aa)+$"}, "a" * 60 + "!"),
    "a pattern that looks everywhere": ({"type": "string", "pattern": "a+b"}, "a" * LONG),
    "names by a pattern": ({"patternProperties": {"^(a|aa)+$": {}}}, NAMES),
    "other names": ({"additionalProperties": False, "patternProperties": {"^(a|aa)+$": {}}}, NAMES),
    "items that differ": ({"type": "array", "uniqueItems": True}, [{"a": at} for at in range(30_000)]),
    "two ways into itself": (TREE, b'{"left":' * 40 + b"1" + b"}" * 40),
    "a schema that is itself": ({"$ref": "#"}, 1),
}


@dataclasses.dataclass
class Node:
    """A payload within itself."""

    next: Node | None = None


class Model(pydantic.BaseModel):
    """The same, for pydantic."""

    next: Model | None = None


def protobuf() -> bytes:
    """Return a message 5,000 levels deep: lists within values within lists."""
    written = b""
    for field in (1, 6) * 5_000:
        written = bytes([field << 3 | 2]) + varint(len(written)) + written
    return written


def any_value(value) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001, D103
def an_object(value: dict[str, Any]) -> None: ...  # noqa: D103
def a_node(value: Node) -> None: ...  # noqa: D103
def a_model(value: Model) -> None: ...  # noqa: D103


def cases() -> Iterator[tuple[str, Any, Any, bytes, str]]:
    """Yield a name, a handler, its decoder, a payload and its content type."""
    client = SchemaRegistryClient.new_client({"url": "mock://hostile"})
    schemas = [("AVRO", name, *case) for name, case in AVRO.items()]
    schemas += [("JSON", name, *case) for name, case in JSON.items()]
    for kind, name, schema, value in schemas:
        written = json.dumps(schema)
        payload = value if isinstance(value, bytes) else json.dumps(value).encode()
        double = SimpleNamespace(get_schema=lambda _id, text=written: SimpleNamespace(definition=text))
        way = "avro/binary+1" if kind == "AVRO" else "application/json;serialization=Json+1"
        yield f"{name}, Azure", any_value, AzureSchemaRegistry(client=double), payload, way
        found = client.register_schema(name, Schema(written, kind))
        decoder = (
            AvroDeserializer(client)
            if kind == "AVRO"
            else JSONDeserializer(None, schema_registry_client=client)
        )
        yield f"{name}, Confluent", any_value, decoder, struct.pack(">bI", 0, found) + payload, ""
    deep = b'{"next":' * LONG + b"null" + b"}" * LONG
    for handler in (an_object, a_node, a_model):
        yield f"deep JSON, {handler.__name__}", handler, None, deep, ""
    yield "deep protobuf", any_value, Value.FromString, protobuf(), ""


def main() -> None:
    """Try all."""
    validating.SEARCH_S, validating.STEPS_MAX = 0.1, 100_000
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    for name, handler, decoder, value, content_type in cases():
        headers = [("content-type", content_type.encode())] if content_type else None
        record = Record(SimulatedMessage("t", 0, 0, b"a", value, headers=headers))
        payload, began_s = payload_of(handler, decoder=decoder), time.monotonic()
        assert payload is not None
        try:
            found = repr(type(payload.decoder()(record)))
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
        sys.stdout.write(json.dumps([name, found, round(time.monotonic() - began_s, 2)]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
