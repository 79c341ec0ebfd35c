"""Keys as JSON: reversible for what brokers and order functions produce, a stable text for the rest.

Pure. Two equal keys of the listed types are written so that they are equal again when read; an object
of any other type becomes an `OpaqueKey` of its `repr`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Hashable

# What a JSON reader keeps exact; orjson refuses integers beyond it.
_JSON_INT_MAX = 2**63 - 1


class OpaqueKey(NamedTuple):
    """Stands for a key that has no JSON form; equal when the `repr` was equal."""

    text: str


def encode_key(key: Hashable) -> object:
    """Return what JSON can hold: a scalar as it is, else `{"b": bytes}`, `{"t": tuple}` or `{"r": repr}`."""
    if key is None or isinstance(key, bool):
        return key
    # An enum member that is a str or an int equals its value, and shares a lane with it.
    if isinstance(key, str) and key.isascii():
        return str.__str__(key)
    if isinstance(key, int) and abs(key) <= _JSON_INT_MAX:
        return int(key)
    if isinstance(key, float) and math.isfinite(key):
        return float(key)
    if isinstance(key, bytes):
        return {"b": key.decode("latin-1")}
    if isinstance(key, OpaqueKey):
        return {"r": key.text}
    if isinstance(key, tuple):
        return {"t": [encode_key(part) for part in key]}
    return _encode_rare(key)


def decode_key(value: Any) -> Hashable:
    """Return the key that `encode_key` was given, or its `OpaqueKey`."""
    if not isinstance(value, dict):
        scalar: Hashable = value
        return scalar
    [(kind, content)] = value.items()
    if kind == "b":
        return str(content).encode("latin-1")
    if kind == "t":
        return tuple(decode_key(part) for part in content)
    if kind == "r":
        return OpaqueKey(content)
    msg = f"unknown kind of key {kind!r}"
    raise ValueError(msg)


def _encode_rare(key: Hashable) -> object:
    if isinstance(key, str):
        text = str.__str__(key)
        try:
            text.encode()
        except UnicodeEncodeError:  # a lone surrogate has no JSON form
            return {"r": ascii(text)}
        return text
    return {"r": ascii(key)}
