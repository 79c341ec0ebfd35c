"""What a record says of its headers, and the same for a bare message."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka import headers
from ehkafka.records import Record, record_type
from tests.kit.simulated.message import SimulatedMessage

if TYPE_CHECKING:
    from ehkafka.headers import HeaderMode

AMQP_EVENT: list[tuple[str, bytes | None]] = [
    ("x-opt-partition-key", b"\xa1\x06home-7"),
    ("x-opt-publisher", b"\xa1\x03hub"),
    ("message-id", b"m-1"),
    ("kind", b"\xa1\x05alarm"),
    ("level", b"\x54\x03"),
    ("empty", None),
]


def _message(
    headers: list[tuple[str, bytes | None]] | None = None, key: bytes | None = None, offset: int = 0
) -> SimulatedMessage:
    return SimulatedMessage("t", 0, offset, key, headers=headers)


def _record(headers: list[tuple[str, bytes | None]] | None = None, key: bytes | None = None) -> Record:
    return record_type("auto", event_hubs=True)(_message(headers, key))


def test_properties_are_those_of_the_application() -> None:
    """Like `EventData.properties`: without the service's annotations, decoded."""
    assert _record(AMQP_EVENT).properties == {"message-id": "m-1", "kind": "alarm", "level": 3, "empty": None}


def test_system_properties_are_the_services() -> None:
    """Like `EventData.system_properties`: annotations and standard properties, decoded."""
    assert _record(AMQP_EVENT).system_properties == {
        "x-opt-partition-key": "home-7",
        "x-opt-publisher": "hub",
        "message-id": "m-1",
    }


def test_of_several_headers_of_one_name_the_last_counts() -> None:
    """And `headers()` still has all of them, in order, as bytes."""
    record = _record([("a", b"first"), ("b", b"x"), ("a", b"last")])
    assert record.properties == {"a": "last", "b": "x"}
    assert record.headers() == [("a", b"first"), ("b", b"x"), ("a", b"last")]


def test_a_record_without_headers_has_no_properties() -> None:
    """Librdkafka says None then."""
    record = _record(None)
    assert record.properties == record.system_properties == {}
    assert (record.partition_key, record.content_type, record.schema_id) == (None, None, None)


@pytest.mark.parametrize(
    ("mode", "event_hubs", "expected"),
    [
        ("auto", True, {"text": "ab", "number": 3}),
        ("auto", False, {"text": b"\xa1\x02ab", "number": "T\x03"}),
        ("amqp", True, {"text": "ab", "number": 3}),
        ("amqp", False, {"text": "ab", "number": 3}),
        ("raw", True, {"text": b"\xa1\x02ab", "number": b"T\x03"}),
        ("raw", False, {"text": b"\xa1\x02ab", "number": b"T\x03"}),
    ],
)
def test_each_kind_of_record_decodes_in_its_mode(
    mode: HeaderMode, event_hubs: bool, expected: dict[str, Any]
) -> None:
    """The mode is the record's class, so a record carries nothing for it."""
    message = _message([("text", b"\xa1\x02ab"), ("number", b"T\x03")])
    kind = record_type(mode, event_hubs=event_hubs)
    assert kind(message).properties == expected
    assert headers.properties(message, mode, event_hubs=event_hubs) == expected
    assert not hasattr(kind(message), "__dict__")


@pytest.mark.parametrize(
    ("header", "key", "expected"),
    [
        (b"\xa1\x06home-7", None, "home-7"),
        (b"home-7", None, "home-7"),
        (b"\xa0\x02\xff\xfe", None, b"\xff\xfe"),
        (b"home-7", b"other", "home-7"),
        (b"", b"other", ""),
        (None, b"other", "other"),
        (None, b"\xff", b"\xff"),
        (None, None, None),
    ],
)
@pytest.mark.parametrize("mode", ["auto", "amqp", "raw"])
def test_the_partition_key_is_the_amqp_producers_else_the_records_key(
    mode: HeaderMode, header: bytes | None, key: bytes | None, expected: str | bytes | None
) -> None:
    """Whichever the encoding and the mode."""
    message = _message([("x-opt-partition-key", header)], key)
    record = record_type(mode, event_hubs=True)(message)
    assert record.partition_key == headers.partition_key(message) == expected


@pytest.mark.parametrize(
    ("name", "value", "content_type", "schema_id"),
    [
        ("content-type", b"application/json", "application/json", None),
        ("content-type", b"avro/binary+0f1e", "avro/binary+0f1e", "0f1e"),
        ("Content-Type", b"Avro/Binary+0F1e", "Avro/Binary+0F1e", "0F1e"),
        ("CONTENT-TYPE", b"\xa1\x10avro/binary+0f1e", "avro/binary+0f1e", "0f1e"),
        ("content-type", b" avro/binary+0f1e ", " avro/binary+0f1e ", "0f1e"),
        ("content-type", b"avro/binary+", "avro/binary+", None),
        ("content-type", b"avro/binary", "avro/binary", None),
        ("content-type", b"", "", None),
        ("content-type", b"A", "A", None),
        ("content-type", b"\xff", None, None),
        ("content-type", b"\xa0\x01x", None, None),
        ("content-type", None, None, None),
        ("other", b"avro/binary+0f1e", None, None),
    ],
)
def test_the_schema_id_is_in_the_content_type(
    name: str, value: bytes | None, content_type: str | None, schema_id: str | None
) -> None:
    """The Azure schema registry's serialisers write it there, header name in any case."""
    message = _message([(name, value), ("last", b"x")])
    assert headers.content_type(message) == Record(message).content_type == content_type
    assert headers.schema_id(message) == Record(message).schema_id == schema_id


def test_the_last_content_type_counts() -> None:
    """Also where the letters differ in case."""
    twice = _message([("content-type", b"text/plain"), ("Content-Type", b"avro/binary+1")])
    assert headers.content_type(twice) == "avro/binary+1"


def test_sequence_number_and_enqueued_time_are_the_sdks_names() -> None:
    """On Event Hubs the offset is the sequence number, and the broker sets the time."""
    record = Record(_message(offset=7))
    assert record.sequence_number == record.offset() == 7
    assert record.enqueued_time == record.time == datetime(1970, 1, 1, 0, 0, 1, 7_000, UTC)


def test_annotations_for_raw_handlers() -> None:
    """A bare message is read by the functions; Event Hubs is what they assume."""
    message = _message(AMQP_EVENT)
    assert headers.properties(message)["kind"] == "alarm"
    assert headers.system_properties(message)["x-opt-publisher"] == "hub"


def test_reading_does_not_change_the_message() -> None:
    """What a handler forwards is what came."""
    message = _message(list(AMQP_EVENT))
    record = _record(AMQP_EVENT)
    assert record.properties == record.properties
    headers.system_properties(message)
    assert message.headers() == AMQP_EVENT
