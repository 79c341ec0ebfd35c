"""Hostile bytes in headers: whatever a producer sends, decoding never raises nor runs away."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any, Final, get_args

from ehkafka.headers import (
    HeaderMode,
    content_type,
    decode,
    partition_key,
    properties,
    schema_id,
    system_properties,
)
from ehkafka.headers.amqp import DEPTH_MAX, ITEMS_MAX, NOT_AMQP, parse
from tests.kit.fuzz.target import Target, damaged
from tests.kit.simulated.message import SimulatedMessage

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

_NAMES = ("p", "content-type", "Content-Type", "message-id", "x-opt-partition-key", "x-opt-y", "")
_CODES = bytes.fromhex("004041424344455051525354555660617071727380818283849498a0a1a3b0b1b3c0c1d0d1e0f0")
# Codes whose values have a width of their own, each with it.
_FIXED = tuple(
    zip(
        bytes.fromhex("4041455054607172738182839498"),
        (0, 0, 0, 1, 1, 2, 4, 4, 4, 8, 8, 8, 16, 16),
        strict=True,
    )
)
_WORDS = ("", "a", "qABCD", "héllo wörld", "x" * 300, "avro/binary+0123", "\n", "\x00")


def judge(buffer: bytes) -> bool:
    """Return whether the buffer is an AMQP value. Raises whatever decoding does against the rules."""
    found = parse(buffer)
    value = decode(buffer)
    _read_all(buffer)
    if found is NOT_AMQP:
        assert value is buffer, "is no value, yet was changed"
        return False
    items, depth = _size(found)
    assert items <= ITEMS_MAX, f"became {items} values"
    assert depth <= DEPTH_MAX, f"became values {depth} deep"
    for other in (buffer[:-1], buffer + b"\x40"):
        assert parse(other) is NOT_AMQP, "is a value without its last byte, or with one more"
    return True


def _read_all(buffer: bytes) -> None:
    # One name for each input, or this would take most of the time.
    message = SimulatedMessage("t", 0, 0, headers=[(_NAMES[len(buffer) % len(_NAMES)], buffer)])
    for mode in get_args(HeaderMode):
        properties(message, mode, event_hubs=True)
        properties(message, mode, event_hubs=False)
    system_properties(message)
    content_type(message)
    schema_id(message)
    partition_key(message)


def _size(value: Any) -> tuple[int, int]:
    """Return how many values a value holds, and how deep they lie."""
    inner = [*value, *value.values()] if isinstance(value, dict) else value
    if not isinstance(inner, list):
        return 0, 0
    sizes = [_size(each) for each in inner]
    return len(inner) + sum(items for items, _ in sizes), 1 + max((depth for _, depth in sizes), default=0)


def _invented(rng: random.Random) -> bytes:
    kinds: tuple[Callable[[random.Random], bytes], ...] = (
        lambda rng: rng.randbytes(rng.randrange(40)),
        lambda rng: bytes([rng.choice(_CODES)]) + rng.randbytes(rng.randrange(24)),
        encoded,
        lambda rng: damaged(rng, encoded(rng), _CODES),
        lambda rng: damaged(rng, encoded(rng), _CODES),
        _bomb,
    )
    return rng.choice(kinds)(rng)


def encoded(rng: random.Random, depth: int = 0) -> bytes:
    """Return a well-formed value, or nearly one: its numbers are any that fit their field."""
    kind = rng.randrange(12 if depth < 3 else 8)
    if kind < 3:
        code, width = rng.choice(_FIXED)
        return bytes([code]) + rng.randbytes(width)
    if kind < 6:
        return _variable(rng.choice((0xA0, 0xA1, 0xA3, 0xB0, 0xB1, 0xB3)), rng.choice(_WORDS).encode())
    if kind < 8:
        name = rng.choice(("uri", "datetime-offset", "timespan", "other"))
        value = b"\xa1\x01x" if name == "uri" else b"\x81" + rng.randbytes(8)
        return b"\x00" + _variable(0xA3, f"com.microsoft:{name}".encode()) + value
    if kind < 11:
        items = [encoded(rng, depth + 1) for _ in range(rng.randrange(5) * 2)]
        return _sized(rng.choice((0xC0, 0xC1, 0xD0, 0xD1)), len(items), b"".join(items))
    count = rng.randrange(6)
    return _sized(rng.choice((0xE0, 0xF0)), count, b"\x61" + rng.randbytes(2 * count))


def _variable(code: int, content: bytes) -> bytes:
    if code < 0xB0 and len(content) > 255:
        code += 0x10
    return struct.pack(">BB" if code < 0xB0 else ">BI", code, len(content)) + content


def _sized(code: int, count: int, items: bytes) -> bytes:
    if code in (0xC0, 0xC1, 0xE0) and len(items) > 254:
        code += 0x10
    if code in (0xC0, 0xC1, 0xE0):
        return bytes([code, len(items) + 1, count]) + items
    return struct.pack(">BII", code, len(items) + 4, count) + items


def _bomb(rng: random.Random) -> bytes:
    """Little that claims to be much: deep nesting, counts without bytes, lengths beyond the end."""
    levels = rng.choice((1, DEPTH_MAX - 1, DEPTH_MAX, DEPTH_MAX + 1, 50, 2_000))
    match rng.randrange(4):
        case 0:
            return b"\x00" * levels + b"\x40"
        case 1:
            return _nested(min(levels, 50))
        case 2:
            count = rng.choice((ITEMS_MAX, ITEMS_MAX + 1, 2**31, 2**32 - 1))
            return _sized(0xF0, count, b"\x40")
        case _:
            huge = struct.pack(">BI", rng.choice((0xB0, 0xB1, 0xD0, 0xD1, 0xF0)), 2**32 - 1)
            return huge + rng.randbytes(math.isqrt(levels))


def _nested(levels: int) -> bytes:
    value = b"\x40"
    for _ in range(levels):
        value = _sized(0xD0, 1, value)
    return value


TARGET: Final = Target("AMQP values in headers", _invented, judge, 10_000)
