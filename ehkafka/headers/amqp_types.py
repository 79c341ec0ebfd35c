"""Python values for AMQP's types, and for the three that the Azure SDKs for .NET and Java add to them.

Each function takes what the code's layout gave and returns the value, or raises `ValueError`,
`OverflowError` or `TypeError` where Python has none. Pure; builds times out of numbers, reads no clock.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Value: TypeAlias = (
    bool
    | int
    | float
    | str
    | bytes
    | datetime
    | timedelta
    | UUID
    | Decimal
    | list[Any]
    | dict[Any, Any]
    | None
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Ticks are 100 ns; .NET counts them from the year 1.
_YEAR_1 = datetime(1, 1, 1, tzinfo=UTC)
_TICKS_PER_MICROSECOND = 10

# decimal128 (IEEE 754-2008, binary integer significand): sign, 14 bits of exponent, 113 of significand.
_DECIMAL128_BIAS = 6176
_DECIMAL128_SIGNIFICAND_BITS = 113
_DECIMAL128_EXPONENT_BITS = 14
_DECIMAL128_DIGITS_MAX = 10**34 - 1


def boolean(octet: int) -> bool:
    """Take 0 and 1 and nothing else."""
    if octet > 1:
        raise ValueError("no boolean")
    return octet == 1


def character(code_point: int) -> str:
    """Return one character; half of a surrogate pair is none."""
    if 0xD800 <= code_point <= 0xDFFF:
        raise ValueError("a surrogate")
    return chr(code_point)


def text(content: bytes) -> str:
    """Return UTF-8 text."""
    return content.decode()


def uuid(content: bytes) -> UUID:
    """Return the UUID of 16 bytes."""
    return UUID(bytes=content)


def timestamp(milliseconds: int) -> datetime:
    """Return the time so many milliseconds after 1970, in the years 1 to 9999."""
    return _EPOCH + timedelta(milliseconds=milliseconds)


def decimal128(content: bytes) -> Decimal:
    """Return the number with all its digits, as .NET's decimal is sent; infinities and NaN are refused."""
    bits = int.from_bytes(content, "big")
    significand = bits & ((1 << _DECIMAL128_SIGNIFICAND_BITS) - 1)
    exponent = bits >> _DECIMAL128_SIGNIFICAND_BITS & ((1 << _DECIMAL128_EXPONENT_BITS) - 1)
    # Two leading ones stand for infinities, NaN and significands that are too large to be written.
    if exponent >> (_DECIMAL128_EXPONENT_BITS - 2) == 0b11 or significand > _DECIMAL128_DIGITS_MAX:
        raise ValueError("no decimal number")
    digits = tuple(map(int, str(significand)))
    return Decimal((bits >> 127, digits, exponent - _DECIMAL128_BIAS))


def _uri(described: Value) -> str:
    if not isinstance(described, str):
        raise TypeError("a URI is a string")
    return described


def _date_time_offset(described: Value) -> datetime:
    return _YEAR_1 + _time_span(described)


def _time_span(described: Value) -> timedelta:
    # Not isinstance: True is an int to it.
    if type(described) is not int:
        raise TypeError("the ticks of a time span must be an integer")
    # Rounded down: Python's times have no tenths of a microsecond.
    return timedelta(microseconds=described // _TICKS_PER_MICROSECOND)


# Described types of the Azure SDKs, by the symbol before the value: AmqpMessageConstants in .NET's
# AmqpAnnotatedMessageConverter, ServiceBusConstants in Java's. DateTimeOffset is sent as UTC ticks.
DESCRIBED: Final[Mapping[Value, Callable[[Value], Value]]] = {
    "com.microsoft:uri": _uri,
    "com.microsoft:datetime-offset": _date_time_offset,
    "com.microsoft:timespan": _time_span,
}
