"""Headers in doubt are decided by the others of their record, which have the same producer."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ehkafka.headers.modes import decoder
from ehkafka.headers.one_producer import decoder_for

Headers = list[tuple[str, bytes | None]]
AMQP_STRING = b"\xa1\x02ab"


def read(headers: Headers, *, mode: Any = "auto", event_hubs: bool = True) -> dict[str, Any]:
    """Decode all headers of one record."""
    decode = decoder_for(headers, mode, event_hubs=event_hubs)
    return {name: decode(name, value) for name, value in headers}


@pytest.mark.parametrize("sure", [AMQP_STRING, b"T\x05", b"\x83" + bytes(8), b"\xb1\x00\x00\x00\x01a"])
@pytest.mark.parametrize(
    ("doubtful", "value"), [(b"T*", 42), (b"U ", 32), (b"qABCD", 0x41424344), (b"A", True), (b"@", None)]
)
def test_beside_a_sure_amqp_value_the_doubtful_is_amqp(sure: bytes, doubtful: bytes, value: Any) -> None:
    """An AMQP producer encodes every property; the order of the headers means nothing."""
    assert read([("n", doubtful), ("sure", sure)])["n"] == value
    assert read([("sure", sure), ("n", doubtful)])["n"] == value


@pytest.mark.parametrize("sure", [b"00-4bf9-01", b"", "naïve".encode(), b"a"])
@pytest.mark.parametrize("doubtful", [b"T*", b"A", b"@", b"qABCD"])
def test_beside_a_sure_text_the_doubtful_is_text(sure: bytes, doubtful: bytes) -> None:
    """A Kafka producer's grade `A` is no `True`."""
    assert read([("grade", doubtful), ("trace", sure)])["grade"] == doubtful.decode()


@pytest.mark.parametrize(
    "others",
    [
        [],
        [("m", b"U!")],
        [("m", None)],
        [("m", b"\xff\xfe")],
        [("text", b"some text"), ("sure", AMQP_STRING)],
        [("content-type", b"application/json"), ("x-opt-partition-key", b"home-7")],
        [("Message-Id", b"m-1"), ("correlation-id", b"c-1"), ("iothub-enqueuedtime", b"\xa1\x02ab")],
    ],
)
def test_without_a_clear_word_of_the_others_the_rule_for_one_header_stands(others: Headers) -> None:
    """Nothing next to it, only doubts, a contradiction, or what the service wrote."""
    found = read([("n", b"T*"), ("flag", b"A"), *others])
    assert (found["n"], found["flag"]) == ("T*", True)


def test_what_the_service_wrote_stays_text_in_an_amqp_record() -> None:
    """Its standard properties are UTF-8 whatever the producer speaks."""
    assert read([("to", b"T*"), ("n", b"T*"), ("sure", AMQP_STRING)]) == {"to": "T*", "n": 42, "sure": "ab"}


@pytest.mark.parametrize(
    ("mode", "event_hubs"), [("raw", True), ("amqp", True), ("auto", False), ("raw", False)]
)
def test_only_auto_on_event_hubs_asks_the_others(mode: Any, event_hubs: bool) -> None:
    """The other modes have no doubts."""
    headers: Headers = [("n", b"T*"), ("sure", AMQP_STRING), ("text", b"text"), ("none", None)]
    decode = decoder(mode, event_hubs=event_hubs)
    expected = {name: decode(name, value) for name, value in headers}
    assert read(headers, mode=mode, event_hubs=event_hubs) == expected


@given(st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=12)), max_size=6))
def test_no_headers_make_it_raise(headers: Headers) -> None:
    """Whatever the bytes; and what is not in doubt is what one header alone would be."""
    alone = decoder("auto", event_hubs=True)
    for name, value in read(headers).items():
        raw = dict(headers)[name]
        if raw is not None and not raw.isascii():
            assert repr(value) == repr(alone(name, raw))
