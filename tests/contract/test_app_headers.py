"""Records of AMQP producers: ordered by their partition key, with headers that a handler can read."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import ehkafka
from tests.kit.waiting import must_stay, wait_until

PARTITION_KEY = "x-opt-partition-key"


def _amqp(text: str) -> bytes:
    return b"\xa1" + bytes([len(text)]) + text.encode()


def _produce(lab: Any, *headers: tuple[str, bytes | None], topic: str = "t", partition: int = 0) -> None:
    """Produce a record as Event Hubs hands over an AMQP producer's: no key, but headers."""
    lab.broker.produce(topic, [(None, b"x")], partition=partition, headers=list(headers))


def _event_hubs(lab: Any) -> dict[str, Any]:
    """Return an app's settings for the lab's broker as if it were the service, with limits of the service."""
    endpoint = dataclasses.replace(lab.endpoint, kind="event-hubs")
    return {"endpoint": endpoint, "consumer": {"session.timeout.ms": 6_000}}


def _by_partition_key(record: ehkafka.Record) -> str | bytes | None:
    return record.partition_key


@pytest.mark.parametrize("order_by", [ehkafka.by_key, _by_partition_key])
def test_records_of_one_partition_key_never_overlap_though_they_have_no_key(lab: Any, order_by: Any) -> None:
    """The lane is that of `x-opt-partition-key`, AMQP string or plain text; other keys run meanwhile."""
    for number in range(30):
        home = f"home-{number % 3}"
        _produce(lab, (PARTITION_KEY, _amqp(home) if number % 2 else home.encode()))
    recorder = lab.recorder()
    gate = recorder.block(lambda record: record.partition_key == "home-0")
    app = lab.start(recorder, workers=8, order_by=order_by)
    wait_until(lambda: recorder.count == 20 and recorder.running["all"] == 1)
    must_stay(lambda: recorder.running["all"] == 1)
    gate.set()
    wait_until(lambda: recorder.count == 30)
    app.stop()
    offsets = {f"home-{n}": list(range(n, 30, 3)) for n in range(3)}
    for home, expected in offsets.items():
        assert [r.offset() for r in recorder.records if r.partition_key == home] == expected


@pytest.mark.parametrize(
    ("headers", "service", "expected"),
    [
        # Next to the others `qABCD` is no text either: they all have one producer, and it speaks AMQP.
        ("auto", True, {"kind": "alarm", "level": 3, "message-id": "A", "note": 0x41424344}),
        ("auto", False, {"kind": b"\xa1\x05alarm", "level": "T\x03", "message-id": "A", "note": "qABCD"}),
        ("amqp", False, {"kind": "alarm", "level": 3, "message-id": True, "note": 0x41424344}),
        ("raw", True, {"kind": b"\xa1\x05alarm", "level": b"T\x03", "message-id": b"A", "note": b"qABCD"}),
    ],
)
def test_a_handler_reads_the_properties_in_its_mode(
    lab: Any, headers: Any, service: bool, expected: dict[str, Any]
) -> None:
    """What an AMQP producer set is a value, unless the handler wants bytes or the broker is Kafka."""
    _produce(
        lab,
        (PARTITION_KEY, _amqp("home")),
        ("kind", _amqp("alarm")),
        ("level", b"T\x03"),
        ("message-id", b"A"),
        ("note", b"qABCD"),
    )
    seen: list[tuple[str, dict[str, Any]]] = []

    def order_by(record: ehkafka.Record) -> Any:
        seen.append(("order_by", record.properties))
        return record.partition_key

    class Reader:
        def process(self, record: ehkafka.Record) -> None:
            assert record.partition_key == "home"
            assert record.sequence_number == record.offset() == 0
            seen.append(("handler", record.properties))
            raise ValueError("to be reported to on_error, too")

    options = _event_hubs(lab) if service else {}
    app = lab.app(Reader, headers=headers, order_by=order_by, on_failure=ehkafka.Hold(), **options)
    app.on_error(lambda _kind, _partition, record, _error: seen.append(("on_error", record.properties)))
    app.use(lambda record, call_next: (seen.append(("middleware", record.properties)), call_next(record)))
    app.start()
    wait_until(lambda: len(seen) == 4)
    app.stop(drain=False)
    assert seen == [(who, expected) for who in ("order_by", "middleware", "handler", "on_error")]


@pytest.mark.parametrize("null_key", ["spread", "partition"])
def test_hostile_headers_stop_neither_the_poll_loop_nor_the_handler(lab: Any, null_key: Any) -> None:
    """Truncated, contradicting or huge headers are bytes, and each record is handled once."""
    hostile = [
        b"",
        b"\xa1",
        b"\xa1\xffx",
        b"\xb1\xff\xff\xff\xffx",
        b"\xf0\xff\xff\xff\xff\xff\xff\xff\xff\x40",
        b"\x00" * 50_000,
        b"\xff" * 50_000,
        None,
    ]
    for value in hostile:
        _produce(lab, (PARTITION_KEY, value), ("", value), ("content-type", value))
    recorder = lab.recorder(
        lambda record: (record.properties, record.system_properties, record.partition_key, record.schema_id)
    )
    app = lab.start(recorder, null_key=null_key, **_event_hubs(lab))
    wait_until(lambda: recorder.count == len(hostile))
    app.stop()
    assert sorted(recorder.offsets()) == list(range(len(hostile)))
    assert recorder.records[0].header("") == b""


def test_a_record_is_made_as_before(lab: Any) -> None:
    """No handler pays for headers that it does not read: a record has its two slots and no more."""
    lab.produce("k")
    recorder = lab.recorder()
    lab.start(recorder, **_event_hubs(lab))
    wait_until(lambda: recorder.count == 1)
    [record] = recorder.records
    assert isinstance(record, ehkafka.Record)
    assert type(record).__slots__ == ()
    assert ehkafka.Record.__slots__ == ("_message", "attempt")
    assert not hasattr(record, "__dict__")
