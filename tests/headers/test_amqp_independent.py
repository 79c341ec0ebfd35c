"""What the Azure SDK for Python encodes, this decoder reads.

The SDK encodes values in a private module, for it has no public one; its public way is to send them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from azure.eventhub._pyamqp._encode import encode_value
from azure.eventhub._pyamqp.types import AMQPTypes
from hypothesis import given
from hypothesis import strategies as st

from ehkafka.headers.amqp import decode

LONG = "x" * 300


def _encoded(kind: AMQPTypes | None, value: Any, **options: Any) -> bytes:
    output = bytearray()
    encode_value(output, value if kind is None else {"TYPE": kind, "VALUE": value}, **options)
    return bytes(output)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (AMQPTypes.null, None),
        (AMQPTypes.boolean, True),
        (AMQPTypes.boolean, False),
        (AMQPTypes.ubyte, 200),
        (AMQPTypes.byte, -100),
        (AMQPTypes.ushort, 60_000),
        (AMQPTypes.short, -30_000),
        *((AMQPTypes.uint, value) for value in (0, 7, 255, 256, 2**32 - 1)),
        *((AMQPTypes.ulong, value) for value in (0, 7, 255, 256, 2**64 - 1)),
        *((AMQPTypes.int, value) for value in (0, 42, -128, 128, -(2**31))),
        *((AMQPTypes.long, value) for value in (0, 42, -128, 128, -(2**63))),
        (AMQPTypes.float, 0.5),
        (AMQPTypes.double, 0.1),
        (AMQPTypes.uuid, UUID(int=2**127 + 3)),
        *((AMQPTypes.binary, value) for value in (b"", b"\xff\x00", LONG.encode())),
        *((AMQPTypes.string, value) for value in ("", "héllo 😀", LONG)),
        *((AMQPTypes.symbol, value) for value in ("", "x-opt-thing", LONG)),
        (AMQPTypes.list, []),
        (AMQPTypes.list, [1, "two", None, [3.5], {"four": 4}]),
        (AMQPTypes.list, [LONG]),
        (AMQPTypes.map, {}),
        (AMQPTypes.map, {"a": 1, "b": [True, None]}),
        (AMQPTypes.map, {"a": LONG}),
        (AMQPTypes.array, [1000, 2000, 3000]),
        (AMQPTypes.array, ["a", "bc"]),
        (AMQPTypes.array, [LONG]),
    ],
    ids=str,
)
def test_a_value_that_the_sdk_encodes_is_read_back(kind: AMQPTypes, value: Any) -> None:
    """Each type by its AMQP name, in the short and the long form."""
    # A list is read into lists of int, str and bytes; the SDK writes str inside as strings.
    assert decode(_encoded(kind, value)) == value
    if kind not in (AMQPTypes.null, AMQPTypes.boolean):
        assert decode(_encoded(kind, value, use_smallest=False)) == value


@pytest.mark.parametrize(
    "value", ["0", "1", "-1", "123.45", "-0.001", "79228162514264337593543950335", "1E+20", "1E-28"]
)
def test_a_decimal_that_the_sdk_encodes_is_read_back(value: str) -> None:
    """.NET's decimal is sent as decimal128; the largest has 29 digits."""
    decoded = decode(_encoded(AMQPTypes.decimal128, Decimal(value)))
    assert isinstance(decoded, Decimal)
    assert decoded.as_tuple() == Decimal(value).as_tuple()


def test_a_time_that_the_sdk_encodes_is_read_back() -> None:
    """A datetime property is a timestamp in milliseconds."""
    when = datetime(2024, 2, 29, 12, 30, 15, 250_000, UTC)
    assert decode(_encoded(AMQPTypes.timestamp, when)) == when


def test_a_described_value_of_the_sdk_is_read_back() -> None:
    """The form in which .NET sends a URI."""
    pair = ({"TYPE": AMQPTypes.symbol, "VALUE": "com.microsoft:uri"}, "https://example.net/")
    assert decode(_encoded(AMQPTypes.described, pair)) == "https://example.net/"


SIMPLE = (
    st.none()
    | st.booleans()
    | st.integers(-(2**31), 2**31 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.uuids()
)


@given(st.dictionaries(st.text(max_size=10), SIMPLE | st.lists(SIMPLE, max_size=5), max_size=5) | SIMPLE)
def test_any_property_of_an_sdk_event_is_read_back(value: Any) -> None:
    """Whatever a Python producer may set, and the SDK chooses the type for."""
    assert decode(_encoded(None, value)) == value
