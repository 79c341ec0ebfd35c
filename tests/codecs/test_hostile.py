"""No payload ends the process, or takes its memory or its hours: it is rejected, as its handler declares."""

from __future__ import annotations

import io
import json
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import fastavro
import fastavro.utils
import jsonschema
import pytest
import regex
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer

import ehkafka
from ehkafka.codecs import avro, schemas, validating
from ehkafka.codecs.reason import Misfit
from ehkafka.codecs.schemas import ASKED_MAX, SCHEMAS_MAX, NoSchema, Schemas
from ehkafka.codecs.validating import bound_jsonschema, bounded
from ehkafka.records.signals import RetryLater

ROOT = Path(__file__).parents[2]
LINK = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}
CASES = 52


def test_hostile_payloads_are_rejected_by_a_process_that_lives() -> None:
    """Of Avro and JSON schema by both registries, JSON by types, and Protobuf, within 2 GiB."""
    command = [sys.executable, "tests/codecs/hostile.py"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    found = [json.loads(line) for line in ran.stdout.splitlines()]
    assert ran.returncode == 0, (ran.stderr[-500:], found[-1:])
    assert len(found) == CASES
    assert [one for one in found if not one[1].startswith("RejectRecord: the payload does not fit")] == []
    assert [one for one in found if one[2] > 5] == []


def test_what_is_nested_as_deep_as_allowed_is_read() -> None:
    """With what other writers write: blocks that tell their length, numbers of 64 bits."""
    value: Any = None
    for _ in range(avro.DEPTH_MAX):
        value = {"next": value}
    written = io.BytesIO()
    fastavro.schemaless_writer(written, schema := fastavro.parse_schema(LINK), value)
    written.seek(0)
    assert avro.read(written, schema, None) == value
    kinds = {"k": {"type": "map", "values": "long"}, "n": {"type": "array", "items": "All"}}
    fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
    schema = fastavro.parse_schema({"type": "record", "name": "All", "fields": fields})
    lowest = b"\xff" * 9 + b"\x01"
    # Behind a prefix, as confluent's reader has it.
    payload = io.BytesIO(b"\x00" + b"\x01\x18\x02a" + lowest + b"\x00" + b"\x01\x04\x00\x00" + b"\x00")
    payload.read(1)
    assert avro.read(payload, schema, None) == {"k": {"a": -(2**63)}, "n": [{"k": {}, "n": []}]}


@pytest.mark.parametrize(
    ("schema", "is_quick"),
    [
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "string"]}]}, True),
        ({"type": "array", "items": {"type": "map", "values": ["null", "double"]}}, True),
        ({"type": "map", "values": "null"}, True),
        ({"type": "array", "items": "null"}, False),
        (LINK, False),
    ],
)
def test_only_what_a_payload_can_blow_up_is_walked(schema: Any, *, is_quick: bool) -> None:
    """All others are read at once."""
    assert (avro.AvroBounds(schema).quick_bytes > 0) is is_quick


def test_patterns_of_other_code_are_searched_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is bounded where a payload is decoded, and nowhere else in the process."""
    searched: list[str] = []
    monkeypatch.setattr(regex, "search", lambda pattern, *_given, **_named: searched.append(pattern) or True)
    bound_jsonschema()
    validator = jsonschema.Draft202012Validator({"pattern": "^a"})
    validator.validate("ab")
    assert searched == []
    bounded(validator.validate, "ab")
    assert searched == ["^a"]


def test_the_time_that_a_registry_takes_is_not_that_of_patterns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what is spent on searching counts, however long the call around it takes."""
    bound_jsonschema()
    monkeypatch.setattr(validating, "SEARCH_S", 0.02)
    validator = jsonschema.Draft202012Validator({"type": "array", "items": {"pattern": "^(a|b)+$"}})

    def ask_and_validate() -> None:
        time.sleep(0.1)
        validator.validate(["ab"] * 100)

    bounded(ask_and_validate)


EVERYTHING = {
    "primitives": ["null", "boolean", "int", "long", "float", "double", "bytes", "string"],
    "fixed": {"type": "fixed", "name": "Fixed", "size": 3},
    "enum": {"type": "enum", "name": "Enum", "symbols": ["A", "B"]},
    "decimal": {"type": "bytes", "logicalType": "decimal", "precision": 6},
    "names": {"type": "array", "items": ["Fixed", "Enum", {"type": "map", "values": "long"}]},
    "itself": ["null", "home.All"],
}


def test_a_walk_ends_where_the_reader_does() -> None:
    """For values of all types that fastavro makes up and writes."""
    fields = [{"name": name, "type": kind} for name, kind in EVERYTHING.items()]
    schema = {"type": "record", "name": "All", "namespace": "home", "fields": fields}
    parsed = fastavro.parse_schema(schema, named := {})
    for value in fastavro.utils.generate_many(parsed, 50):
        written = io.BytesIO()
        fastavro.schemaless_writer(written, parsed, value)
        assert avro._AvroWalk(named, written.getvalue()).end_of(parsed, 0, 0) == written.tell()


def test_the_drop_in_reads_within_the_same_bounds() -> None:
    """`DeserializingConsumer` with confluent's deserialisers, whichever program made them."""
    client = SchemaRegistryClient.new_client({"url": "mock://drop-in"})
    schema_id = client.register_schema("t-value", Schema(json.dumps(LINK), "AVRO"))
    conf = {"bootstrap.servers": "127.0.0.1:9", "group.id": "g", "log_level": 0}
    consumer = ehkafka.DeserializingConsumer({**conf, "value.deserializer": AvroDeserializer(client)})
    deserialize: Any = consumer._value_deserializer
    with consumer, pytest.raises(Misfit, match="nested too deep"):
        deserialize(struct.pack(">bI", 0, schema_id) + b"\x02" * 300 + b"\x00", None)


class Registry:
    """Answers once it is let go; counts."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.asked: list[str] = []

    def ask(self, name: str) -> str:
        """Return an answer for a name that begins with `good`."""
        self.asked.append(name)
        assert self.go.wait(10)
        if not name.startswith("good"):
            raise NoSchema(name)
        return name


def test_known_schemas_are_given_while_others_are_asked_for() -> None:
    """However many are, and only some of them at a time: what has no turn is retried later."""
    registry, known = Registry(), Schemas()
    registry.go.set()
    assert known.get("good", lambda: registry.ask("good")) == "good"
    registry.go.clear()

    def ask(name: str) -> None:
        with pytest.raises(NoSchema):
            known.get(name, lambda: registry.ask(name))

    threads = [threading.Thread(target=ask, args=(f"evil{at}",)) for at in range(ASKED_MAX)]
    for thread in threads:
        thread.start()
    while len(registry.asked) < 1 + ASKED_MAX:
        time.sleep(0.001)
    assert known.get("good", lambda: registry.ask("good")) == "good"
    with pytest.raises(RetryLater, match="is busy with requests for other schemas"):
        known.get("another", lambda: registry.ask("another"))
    registry.go.set()
    for thread in threads:
        thread.join()
    assert known.get("good2", lambda: registry.ask("good2")) == "good2"


def test_who_waits_for_a_slow_answer_is_retried_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """One question for each id; a worker waits for it for a moment only."""
    monkeypatch.setattr(schemas, "ANSWER_S", 0.01)
    registry, known, found = Registry(), Schemas(), []
    one = threading.Thread(target=lambda: found.append(known.get("good", lambda: registry.ask("good"))))
    one.start()
    while not registry.asked:
        time.sleep(0.001)
    with pytest.raises(RetryLater, match="has not answered yet"):
        known.get("good", lambda: registry.ask("good"))
    registry.go.set()
    one.join()
    assert (found, registry.asked) == (["good"], ["good"])


def test_ids_that_the_registry_lacks_push_no_known_schema_out() -> None:
    """And are remembered up to a number."""
    registry, known = Registry(), Schemas()
    registry.go.set()
    known.get("good", lambda: registry.ask("good"))
    for at in range(SCHEMAS_MAX + 10):
        with pytest.raises(NoSchema):
            known.get(f"evil{at}", lambda at=at: registry.ask(f"evil{at}"))  # type: ignore[misc]
    asked = len(registry.asked)
    with pytest.raises(NoSchema):
        known.get("evil900", lambda: registry.ask("evil900"))
    assert known.get("good", lambda: registry.ask("good")) == "good"
    assert len(registry.asked) == asked
    assert len(known._unknown) == SCHEMAS_MAX
