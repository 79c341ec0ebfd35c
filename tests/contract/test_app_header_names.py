"""Header names that are no UTF-8: any Kafka producer can send them, and confluent-kafka cannot read them."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from confluent_kafka import cimpl

from tests.kit.waiting import wait_until

# librdkafka's rd_kafka_vtype_t, for rd_kafka_produceva.
TOPIC, PARTITION, VALUE, KEY, HEADER = 1, 3, 4, 5, 9
PRODUCER = 0


class _Memory(ctypes.Structure):
    _fields_ = [("pointer", ctypes.c_char_p), ("size", ctypes.c_size_t)]


class _Header(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_char_p), ("size", ctypes.c_ssize_t)]


class _Union(ctypes.Union):
    _fields_ = [
        ("text", ctypes.c_char_p),
        ("number", ctypes.c_int32),
        ("memory", _Memory),
        ("header", _Header),
        ("padding", ctypes.c_char * 64),
    ]


class _Argument(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("given", _Union)]


def _function(name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(ctypes.CDLL(cimpl.__file__), name)
    function.restype, function.argtypes = result, arguments
    return function


def _produce(bootstrap: str, key: bytes | None, *headers: tuple[bytes, bytes]) -> None:
    """Produce a record to `t`, partition 0, by librdkafka itself: the Python producer takes no such name."""
    pointer, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
    shown = ctypes.create_string_buffer(512)
    properties = _function("rd_kafka_conf_new", pointer)()
    set_property = _function("rd_kafka_conf_set", ctypes.c_int, pointer, text, text, text, size)
    assert set_property(properties, b"bootstrap.servers", bootstrap.encode(), shown, 512) == 0, shown.value
    producer = _function("rd_kafka_new", pointer, ctypes.c_int, pointer, text, size)(
        PRODUCER, properties, shown, 512
    )
    given = [(TOPIC, {"text": b"t"}), (PARTITION, {"number": 0}), (VALUE, {"memory": _Memory(b"x", 1)})]
    if key is not None:
        given.append((KEY, {"memory": _Memory(key, len(key))}))
    given += [(HEADER, {"header": _Header(name, value, len(value))}) for name, value in headers]
    arguments = (_Argument * len(given))(*(_Argument(kind, _Union(**what)) for kind, what in given))
    try:
        assert (
            _function("rd_kafka_produceva", pointer, pointer, pointer, size)(producer, arguments, len(given))
            is None
        )
        assert _function("rd_kafka_flush", ctypes.c_int, pointer, ctypes.c_int)(producer, 10_000) == 0
    finally:
        _function("rd_kafka_destroy", None, pointer)(producer)


@pytest.mark.parametrize(("key", "raw"), [(None, False), (b"k", True)])
@pytest.mark.parametrize(
    ("names", "readable"),
    [([b"na\xffme"], {"na\ufffdme": "1"}), ([b"na\xffme", b"\xfe"], {"\ufffd": "2"})],
    ids=["one", "two"],
)
def test_a_header_name_that_is_no_utf_8_stops_nothing(
    lab: Any, program: Any, names: list[bytes], readable: dict[str, str], key: bytes | None, raw: bool
) -> None:
    """Neither the poll loop, which looks for a partition key, nor the handler, nor the process."""
    lab.judged = False
    unreadable = [(name, b"%d" % number) for number, name in enumerate(names, 1)]
    _produce(lab.broker.bootstrap, key, *unreadable, (b"x-opt-partition-key", b"home"))
    lab.produce("after")
    # A program of its own: what fails here ends the process without a word.
    running = program(
        f"""
        from ehkafka import headers
        @app.handler("t", raw={raw})
        def handle(record):
            for _ in range(2):
                say(record.offset(), headers.partition_key(record), headers.properties(record))
            say(record.offset(), record.headers())
            if record.offset() == 1:
                app.stop()
        run()
        """
    )
    wait_until(lambda: running.printed("END"))
    assert running.wait() == 0
    assert running.lines.count(f"0 home {readable}") == 2
    assert running.printed("('x-opt-partition-key', b'home')")
    assert running.lines.count("1 after {}") == 2
