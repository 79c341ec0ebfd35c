"""AMQP 1.0 values as bytes: what the headers of AMQP producers hold on the Kafka side of Event Hubs.

Responsible for turning one encoded value into a Python value, and for leaving alone whatever is none.
It must never raise for any input, recurse deeper than `DEPTH_MAX`, or allocate more than a small multiple
of the input: any producer can choose these bytes. Pure functions; any thread.

The codes are those of the AMQP 1.0 types specification, numbers big-endian. A value counts only if it
takes up the whole buffer.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ehkafka.headers import amqp_types

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ehkafka.headers.amqp_types import Value

DEPTH_MAX: Final = 8
"""How deep described values, lists, maps and arrays may lie in one another. The Azure SDKs send simple
values only, so this is generous; it bounds the recursion."""

ITEMS_MAX: Final = 1_000
"""How many values one buffer may hold within lists, maps and arrays, all levels together. An array of
nulls takes no byte for each of them: its count alone must not decide what is allocated."""


_DESCRIBED_CODE = 0x00


class _NotAmqp:
    """The type of `NOT_AMQP`."""

    def __repr__(self) -> str:
        return "NOT_AMQP"


NOT_AMQP: Final = _NotAmqp()
"""The answer of `parse` for a buffer that is not one AMQP value. (Null is one: it decodes to None.)"""


class _Walk:
    """One buffer being read, and what may still be spent on it."""

    __slots__ = ("buffer", "depth", "items_left")

    def __init__(self, buffer: bytes) -> None:
        self.buffer = buffer
        self.depth = 0
        self.items_left = ITEMS_MAX


# Reads what follows a code at a position; returns the value and the position after it. Raises `ValueError`,
# `OverflowError`, `KeyError`, `IndexError`, `TypeError` or `struct.error` for what is no such value.
_Read: TypeAlias = "Callable[[_Walk, int], tuple[Value, int]]"


def decode(buffer: bytes) -> Value:
    """Return the value that the whole buffer encodes, or the buffer itself if it is not exactly one.

    Integers become int; float and double float; strings and symbols str; binary bytes; timestamps and .NET's
    DateTimeOffset aware datetimes in UTC; .NET's TimeSpan timedelta; a URI str; uuid `uuid.UUID`; decimal128
    `decimal.Decimal`; a char a str of one character; lists and arrays list; maps dict. What Python's types
    cannot hold (a timestamp after the year 9999, a surrogate as a char, text that is no UTF-8) and unknown
    descriptors are left as bytes, too.

    - `buffer` (required): a header's value, as AMQP 1.0 encodes it.
    """
    value = parse(buffer)
    return buffer if value is NOT_AMQP else value


def parse(buffer: bytes) -> Value | Any:
    """Return the value that the whole buffer encodes, or `NOT_AMQP`. Never raises for bytes."""
    try:
        value, end = _READ[buffer[0]](_Walk(buffer), 1)
    # All that the readers raise; a defect of theirs would be something else, and be seen by the tests.
    except (ValueError, OverflowError, LookupError, TypeError, struct.error):
        return NOT_AMQP
    return value if end == len(buffer) else NOT_AMQP


def _constant(value: Value) -> _Read:
    return lambda _walk, at: (value, at)


def _empty_list(_walk: _Walk, at: int) -> tuple[Value, int]:
    return [], at


def _fixed(layout: str, convert: Callable[[Any], Value] | None = None) -> _Read:
    form = struct.Struct(layout)
    unpack, width = form.unpack_from, form.size

    def read(walk: _Walk, at: int) -> tuple[Value, int]:
        (value,) = unpack(walk.buffer, at)
        return (value if convert is None else convert(value)), at + width

    return read


def _variable(length_layout: str, convert: Callable[[bytes], Value] | None = None) -> _Read:
    form = struct.Struct(length_layout)
    unpack, width = form.unpack_from, form.size

    def read(walk: _Walk, at: int) -> tuple[Value, int]:
        (length,) = unpack(walk.buffer, at)
        begin = at + width
        end = begin + length
        # If that is beyond the buffer's end, the slice is shorter and `end` will fit nowhere.
        content = walk.buffer[begin:end]
        return (content if convert is None else convert(content)), end

    return read


def _described(walk: _Walk, at: int) -> tuple[Value, int]:
    _go_deeper(walk)
    descriptor, at = _value(walk, at)
    described, at = _value(walk, at)
    walk.depth -= 1
    return amqp_types.DESCRIBED[descriptor](described), at


def _compound(width: int, make: Callable[[Iterator[Value]], Value]) -> _Read:
    def read(walk: _Walk, at: int) -> tuple[Value, int]:
        count, at, end = _open(walk, at, width)
        values: list[Value] = []
        for _ in range(count):
            value, at = _value(walk, at)
            values.append(value)
        _close(walk, at, end)
        return make(iter(values)), at

    return read


def _array(width: int) -> _Read:
    def read(walk: _Walk, at: int) -> tuple[Value, int]:
        count, at, end = _open(walk, at, width)
        values: list[Value] = []
        # One code for all, which may be missing where there are none.
        if count or at < end:
            code = walk.buffer[at]
            at += 1
            # Its descriptor would stand between the code and the elements; no client sends that.
            if code == _DESCRIBED_CODE:
                raise ValueError("an array with described values is not supported")
            element = _READ[code]
            for _ in range(count):
                value, at = element(walk, at)
                values.append(value)
        _close(walk, at, end)
        return values, at

    return read


def _open(walk: _Walk, at: int, width: int) -> tuple[int, int, int]:
    """Return the number of values, where they begin, and where they must end. The size covers the count."""
    size, count = struct.unpack_from(">BB" if width == 1 else ">II", walk.buffer, at)
    walk.items_left -= count
    if walk.items_left < 0:
        raise ValueError("too many values")
    _go_deeper(walk)
    return count, at + 2 * width, at + width + size


def _close(walk: _Walk, at: int, end: int) -> None:
    if at != end:
        raise ValueError("the values of a list, map or array are shorter or longer than its size field")
    walk.depth -= 1


def _go_deeper(walk: _Walk) -> None:
    walk.depth += 1
    if walk.depth > DEPTH_MAX:
        raise ValueError("too deep")


def _value(walk: _Walk, at: int) -> tuple[Value, int]:
    return _READ[walk.buffer[at]](walk, at + 1)


def _pairs(values: Iterator[Value]) -> Value:
    # A key that cannot be hashed (a list) is a TypeError, one without a value a ValueError.
    return dict(zip(values, values, strict=True))


_READ: Final[dict[int, _Read]] = {
    _DESCRIBED_CODE: _described,
    0x40: _constant(None),
    0x41: _constant(True),
    0x42: _constant(False),
    0x43: _constant(0),  # uint
    0x44: _constant(0),  # ulong
    0x45: _empty_list,
    0x50: _fixed(">B"),  # ubyte
    0x51: _fixed(">b"),  # byte
    0x52: _fixed(">B"),  # small uint
    0x53: _fixed(">B"),  # small ulong
    0x54: _fixed(">b"),  # small int
    0x55: _fixed(">b"),  # small long
    0x56: _fixed(">B", amqp_types.boolean),
    0x60: _fixed(">H"),  # ushort
    0x61: _fixed(">h"),  # short
    0x70: _fixed(">I"),  # uint
    0x71: _fixed(">i"),  # int
    0x72: _fixed(">f"),
    0x73: _fixed(">I", amqp_types.character),
    0x80: _fixed(">Q"),  # ulong
    0x81: _fixed(">q"),  # long
    0x82: _fixed(">d"),
    0x83: _fixed(">q", amqp_types.timestamp),
    0x94: _fixed("16s", amqp_types.decimal128),
    0x98: _fixed("16s", amqp_types.uuid),
    0xA0: _variable(">B"),
    0xA1: _variable(">B", amqp_types.text),
    0xA3: _variable(">B", amqp_types.text),  # symbol
    0xB0: _variable(">I"),
    0xB1: _variable(">I", amqp_types.text),
    0xB3: _variable(">I", amqp_types.text),  # symbol
    0xC0: _compound(1, list),
    0xC1: _compound(1, _pairs),
    0xD0: _compound(4, list),
    0xD1: _compound(4, _pairs),
    0xE0: _array(1),
    0xF0: _array(4),
}
