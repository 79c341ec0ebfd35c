"""Every AMQP code decodes to its Python value, and what is not exactly one value stays bytes."""

from __future__ import annotations

import math
import struct
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from ehkafka.headers.amqp import DEPTH_MAX, ITEMS_MAX, NOT_AMQP, decode, parse

UUID_BYTES = bytes(range(16))
LONG_TEXT = "é" * 200


def _described(name: str, value: bytes) -> bytes:
    symbol = f"com.microsoft:{name}".encode()
    return b"\x00\xa3" + bytes([len(symbol)]) + symbol + value


def _long(value: int) -> bytes:
    return b"\x81" + struct.pack(">q", value)


def _sized(code: int, count: int, items: bytes) -> bytes:
    """Return a list, map or array in the form with one byte of size, or with four."""
    if code < 0xD0 or code == 0xE0:
        return bytes([code, len(items) + 1, count]) + items
    return struct.pack(">BII", code, len(items) + 4, count) + items


# Bytes and the value that they encode. Values are compared with their type: 1 is neither True nor 1.0.
VECTORS: list[tuple[bytes, Any]] = [
    (b"\x40", None),
    (b"\x41", True),
    (b"\x42", False),
    (b"\x56\x01", True),
    (b"\x56\x00", False),
    (b"\x50\xff", 255),
    (b"\x51\xff", -1),
    (b"\x60\xff\xfe", 65534),
    (b"\x61\xff\xfe", -2),
    (b"\x70\xff\xff\xff\xff", 2**32 - 1),
    (b"\x52\xff", 255),
    (b"\x43", 0),
    (b"\x71\x80\x00\x00\x00", -(2**31)),
    (b"\x54\x80", -128),
    (b"\x80" + b"\xff" * 8, 2**64 - 1),
    (b"\x53\xff", 255),
    (b"\x44", 0),
    (_long(-(2**63)), -(2**63)),
    (b"\x55\x2a", 42),
    (b"\x72\x3f\x80\x00\x00", 1.0),
    (b"\x82\x40\x09\x21\xfb\x54\x44\x2d\x18", math.pi),
    (b"\x82\x7f\xf0\x00\x00\x00\x00\x00\x00", math.inf),
    (b"\x73\x00\x00\x00\x41", "A"),
    (b"\x73\x00\x01\xf6\x00", "😀"),
    (b"\x83" + struct.pack(">q", 1_700_000_000_123), datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC)),
    (b"\x83" + struct.pack(">q", -1), datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC)),
    (b"\x83" + struct.pack(">q", 253_402_300_799_999), datetime(9999, 12, 31, 23, 59, 59, 999_000, UTC)),
    (b"\x83" + struct.pack(">q", -62_135_596_800_000), datetime(1, 1, 1, tzinfo=UTC)),
    (b"\x94\x30\x40" + bytes(13) + b"\x01", Decimal(1)),
    (b"\x94\xb0\x3c" + bytes(12) + b"\x30\x39", Decimal("-123.45")),
    (b"\x98" + UUID_BYTES, UUID(bytes=UUID_BYTES)),
    (b"\xa0\x00", b""),
    (b"\xa0\x02\xff\x00", b"\xff\x00"),
    (b"\xb0\x00\x00\x00\x02\xff\x00", b"\xff\x00"),
    (b"\xa1\x00", ""),
    (b"\xa1\x05hello", "hello"),
    (b"\xa1\x04\xf0\x9f\x98\x80", "😀"),
    (b"\xb1\x00\x00\x01\x90" + LONG_TEXT.encode(), LONG_TEXT),
    (b"\xa3\x03sym", "sym"),
    (b"\xb3\x00\x00\x00\x03sym", "sym"),
    (_described("uri", b"\xa1\x09https://x"), "https://x"),
    # What .NET sends for 2024-11-15T23:26:02.5931825+00:00: the tenth of a microsecond is cut off.
    (
        _described("datetime-offset", _long(638_673_099_625_931_825)),
        datetime(2024, 11, 15, 23, 26, 2, 593_182, UTC),
    ),
    (_described("timespan", _long(12_345_678_9)), timedelta(seconds=12, microseconds=345_678)),
    (_described("timespan", b"\x55\xf6"), timedelta(microseconds=-1)),
    (_described("timespan", _long(-(2**63))), timedelta(microseconds=-922_337_203_685_477_581)),
    (b"\x45", []),
    (_sized(0xC0, 3, b"\x54\x01\xa1\x01x\x40"), [1, "x", None]),
    (_sized(0xD0, 2, b"\x41" + _sized(0xC0, 1, b"\x42")), [True, [False]]),
    (_sized(0xC1, 4, b"\xa1\x01a\x54\x01\xa1\x01b\x40"), {"a": 1, "b": None}),
    (_sized(0xD1, 2, b"\xa3\x01a" + _described("uri", b"\xa1\x01u")), {"a": "u"}),
    (_sized(0xC1, 0, b""), {}),
    (_sized(0xE0, 2, b"\x61\x00\x01\xff\xff"), [1, -1]),
    (_sized(0xF0, 2, b"\xa1\x01a\x02bc"), ["a", "bc"]),
    (_sized(0xE0, 3, b"\x40"), [None, None, None]),
    (_sized(0xE0, 0, b""), []),
    (_sized(0xE0, 0, b"\x71"), []),
]
VALID = [encoded for encoded, _ in VECTORS]


def _types(value: Any) -> Any:
    if isinstance(value, dict):
        return {_types(key): _types(each) for key, each in value.items()}
    return [_types(each) for each in value] if isinstance(value, list) else type(value)


def test_every_code_decodes_to_its_value() -> None:
    """Each code of the types specification, and .NET's three described types."""
    found = [(encoded, decode(encoded)) for encoded in VALID]
    assert found == VECTORS
    assert [(encoded, _types(value)) for encoded, value in found] == [
        (encoded, _types(value)) for encoded, value in VECTORS
    ]


def test_not_a_number_is_a_float() -> None:
    """NaN equals nothing, so the table cannot hold it."""
    assert math.isnan(decode(b"\x72\x7f\xc0\x00\x00"))  # type: ignore[arg-type]


def test_every_truncation_stays_bytes() -> None:
    """A value cut at any length is handed over as it is, be it the very same object."""
    cuts = [encoded[:length] for encoded in VALID for length in range(len(encoded))]
    assert [cut for cut in cuts if decode(cut) is not cut] == []


def test_a_value_with_something_behind_it_stays_bytes() -> None:
    """Only a whole buffer is a value."""
    longer = [encoded + more for encoded in VALID for more in (b"\x00", b"\x40", b"A", encoded)]
    assert [each for each in longer if parse(each) is not NOT_AMQP] == []


def test_codes_that_mean_nothing_stay_bytes() -> None:
    """Codes outside the table, whatever follows."""
    codes = set(range(256)) - {encoded[0] for encoded in VALID}
    rests = (b"", b"\x00", b"\x01x", bytes(4), bytes(8), bytes(16))
    values = [bytes([code]) + rest for code in sorted(codes) for rest in rests]
    assert [each for each in values if parse(each) is not NOT_AMQP] == []


@pytest.mark.parametrize(
    "encoded",
    [
        b"",
        b"\x56\x02",  # neither true nor false
        b"\x73\x00\x11\x00\x00",  # beyond Unicode
        b"\x73\x00\x00\xd8\x00",  # half a surrogate pair
        b"\x83" + struct.pack(">q", 253_402_300_800_000),  # the year 10000
        b"\x83" + struct.pack(">q", -62_135_596_800_001),  # before the year 1
        b"\x83" + struct.pack(">q", 2**63 - 1),
        b"\x94\x78" + bytes(15),  # infinity
        b"\x94\x7c" + bytes(15),  # not a number
        b"\x94\x30\x41\xff" + b"\xff" * 13,  # more than 34 digits
        b"\xa1\x02\xff\xfe",  # no UTF-8
        b"\xa3\x01\xff",
        b"\xb1\x00\x00\x00\x01\xc3",
        b"\xb0\xff\xff\xff\xffx",  # 4 GiB announced
        _described("uri", b"\x54\x01"),  # a URI that is a number
        _described("timespan", b"\x41"),  # ticks that are true
        _described("timespan", b"\xa1\x011"),
        _described("datetime-offset", _long(-1)),
        _described("datetime-offset", _long(2**63 - 1)),
        _described("something-new", b"\xa1\x01x"),
        b"\x00\x53\x74\xc1\x01\x00",  # a section of a message: a descriptor that is a number
        b"\x00\x45\x40",  # a descriptor that cannot be one
        _sized(0xC0, 1, b"\x41\x41"),  # more than was counted
        _sized(0xC0, 3, b"\x41\x41"),  # less
        b"\xc0\x02\x01\xa1\x00",  # an item beyond the size
        _sized(0xC1, 3, b"\x41\x41\x41"),  # a key without a value
        _sized(0xC1, 2, b"\x45\x41"),  # a list as a key
        _sized(0xE0, 2, b"\x61\x00\x01\xff"),
        _sized(0xE0, 1, b""),  # one element of no type
        _sized(0xE0, 1, _described("uri", b"\xa1\x01u")),  # a descriptor for each element
        b"\xc0\x00\x00",  # a size that does not cover the count
    ],
    ids=lambda each: each[:12].hex(),
)
def test_what_no_python_value_can_be_stays_bytes(encoded: bytes) -> None:
    """Out of range, not UTF-8, or contradicting itself."""
    assert decode(encoded) is encoded


def test_nesting_is_bounded() -> None:
    """A list in a list in a list … is decoded down to the limit and refused beyond."""

    def nested(levels: int) -> bytes:
        value = b"\x40"
        for _ in range(levels):
            value = _sized(0xD0, 1, value)
        return value

    assert decode(nested(DEPTH_MAX)) != nested(DEPTH_MAX)
    for levels in (DEPTH_MAX + 1, 5_000):
        assert parse(nested(levels)) is NOT_AMQP
    assert parse(b"\x00" * 100_000) is NOT_AMQP


@pytest.mark.parametrize("code", [0xD0, 0xD1, 0xF0])
def test_the_number_of_values_is_bounded(code: int) -> None:
    """The count of an array of nulls costs no bytes; it must not decide what is allocated."""
    items = b"\x40" if code == 0xF0 else b"\x40" * ITEMS_MAX
    assert parse(_sized(code, ITEMS_MAX, items)) is not NOT_AMQP
    for count in (ITEMS_MAX + 2, 2**32 - 2):
        assert parse(_sized(code, count, b"\x40" if code == 0xF0 else b"\x40" * (ITEMS_MAX + 2))) is NOT_AMQP


def test_the_bound_is_one_for_the_whole_value() -> None:
    """Many arrays, each below the limit, are too much together."""
    half = _sized(0xF0, ITEMS_MAX // 2, b"\x40")
    assert parse(_sized(0xD0, 1, half)) is not NOT_AMQP
    assert parse(_sized(0xD0, 2, half * 2)) is NOT_AMQP
