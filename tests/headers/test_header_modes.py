"""Which value a header becomes in each mode, on Event Hubs and elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ehkafka.headers.modes import STANDARD_PROPERTIES, decoder

AUTO = decoder("auto", event_hubs=True)
AUTO_ELSEWHERE = decoder("auto", event_hubs=False)


@pytest.mark.parametrize("event_hubs", [True, False])
@pytest.mark.parametrize("value", [None, b"", b"\x40", b"\xa1\x02ab", b"text", b"\xff"])
def test_raw_leaves_the_bytes_as_they_came(value: bytes | None, event_hubs: bool) -> None:
    """Nothing is read into them."""
    assert decoder("raw", event_hubs=event_hubs)("p", value) is value


@pytest.mark.parametrize("event_hubs", [True, False])
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (b"\x40", None),
        (b"\xa1\x02ab", "ab"),
        (b"qABCD", 0x41424344),
        (b"T*", 42),
        (b"text", b"text"),
        (b"", b""),
        (b"\xa1\x03ab", b"\xa1\x03ab"),
    ],
)
def test_amqp_decodes_what_is_a_value_and_leaves_the_rest(
    value: bytes | None, expected: Any, event_hubs: bool
) -> None:
    """No doubts, and no guess at text."""
    assert decoder("amqp", event_hubs=event_hubs)("p", value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (b"", ""),
        # One byte: AMQP's constants win, every other character is text.
        (b"\x40", None),
        (b"\x41", True),
        (b"\x42", False),
        (b"\x43", 0),
        (b"\x44", 0),
        (b"\x45", []),
        (b"F", "F"),
        (b"?", "?"),
        (b"0", "0"),
        (b"\x00", "\x00"),
        (b"\xa1", b"\xa1"),
        # Printable text stays text, even where it is an AMQP value as well.
        (b"qABCD", "qABCD"),
        (b"US", "US"),
        (b"T*", "T*"),
        (b"T~", "T~"),
        (b"T ", "T "),
        (b"`ab", "`ab"),
        (b"rABCD", "rABCD"),
        ("naïve 😀".encode(), "naïve 😀"),
        # One character that is not printable, and an AMQP value is one.
        (b"T\x1f", 31),
        (b"T\x7f", 127),
        (b"S\n", 10),
        (b"U\x80", -128),
        (b"V\x01", True),
        (b"V\x00", False),
        (b"q\x00\x00\x00\x2a", 42),
        (b"s\x00\x00\x00A", "A"),
        (b"\x00\xa3\x11com.microsoft:uri\xa1\x01u", "u"),
        # Text all the same where it is no AMQP value.
        (b"T\n\n", "T\n\n"),
        (b"V\x02", "V\x02"),
        (b"two\nlines", "two\nlines"),
        (b"\tq", "\tq"),
        # Bytes that no text begins with.
        (b"\xa1\x02ab", "ab"),
        (b"\xa3\x02ab", "ab"),
        (b"\xa0\x02ab", b"ab"),
        (b"\x83" + bytes(8), datetime(1970, 1, 1, tzinfo=UTC)),
        (b"\x98" + bytes(16), UUID(int=0)),
        (b"\xc1\x06\x02\xa1\x01a\x54\x01", {"a": 1}),
        # Neither.
        (b"\xff\xfe", b"\xff\xfe"),
        (b"\xa1\x09ab", b"\xa1\x09ab"),
    ],
)
def test_auto_on_event_hubs_takes_amqp_where_there_is_no_doubt(value: bytes | None, expected: Any) -> None:
    """The rule of `ehkafka.headers.modes`, at its edges."""
    assert AUTO("p", value) == expected
    assert type(AUTO("p", value)) is type(expected)


@pytest.mark.parametrize("name", [*sorted(STANDARD_PROPERTIES), "Content-Type", "MESSAGE-ID"])
def test_auto_reads_standard_properties_as_the_service_writes_them(name: str) -> None:
    """UTF-8, also where the text is one that AMQP has a meaning for."""
    assert AUTO(name, b"A") == "A"
    assert AUTO(name, b"V\x01") == "V\x01"
    assert AUTO(name, b"application/json") == "application/json"
    # An application property of the same name, sent by an AMQP producer.
    assert AUTO(name, b"\xa1\x02ab") == "ab"
    assert AUTO(name, b"\xff") == b"\xff"
    assert AUTO(name, None) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (b"", ""),
        (b"A", "A"),
        (b"V\x01", "V\x01"),
        (b"qABCD", "qABCD"),
        ("naïve".encode(), "naïve"),
        (b"\xa1\x02ab", b"\xa1\x02ab"),
    ],
)
def test_auto_elsewhere_knows_text_and_bytes(value: bytes | None, expected: Any) -> None:
    """No AMQP producer can be behind Apache Kafka."""
    assert AUTO_ELSEWHERE("p", value) == expected
    assert decoder("auto", event_hubs=False)("message-id", value) == expected


@given(st.text(st.characters(exclude_categories=("C", "Z"))).filter(lambda text: text not in tuple("@ABCDE")))
def test_printable_text_of_a_kafka_producer_survives_auto(text: str) -> None:
    """Whatever it says, `@` and `A` to `E` alone aside."""
    assert AUTO("p", text.encode()) == text


@given(
    st.text(max_size=400).map(lambda text: (text, text.encode())),
    st.sampled_from([(0xA1, 0xB1), (0xA3, 0xB3)]),
)
def test_text_of_an_amqp_producer_survives_auto(text: tuple[str, bytes], codes: tuple[int, int]) -> None:
    """AMQP strings and symbols are never mistaken for text, nor for anything else."""
    value, content = text
    short, long = codes
    encoded = (
        bytes([short, len(content)]) + content
        if len(content) < 256
        else bytes([long]) + len(content).to_bytes(4, "big") + content
    )
    assert AUTO("p", encoded) == value


@given(st.integers(-(2**31), 2**31 - 1).filter(lambda value: not 32 <= value <= 126))
@example(0x2167CB80)
def test_integers_of_an_amqp_producer_survive_auto_but_for_the_printable_ones(value: int) -> None:
    """The SDKs take the short form where it fits; 32 to 126 then are two printable characters."""
    small = -128 <= value <= 127
    encoded = (
        b"\x54" + value.to_bytes(1, "big", signed=True)
        if small
        else b"\x71" + value.to_bytes(4, "big", signed=True)
    )
    # `ignore` leaves out what is no UTF-8, so that nothing else equals its own bytes again.
    as_text = encoded.decode(errors="ignore")
    is_text = as_text.encode() == encoded and as_text.isprintable()
    assert AUTO("p", encoded) == (as_text if is_text else value)
