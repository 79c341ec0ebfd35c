"""An output's bytes. Pure."""

from __future__ import annotations

import orjson


def encoded(value: object) -> bytes | None:
    """Return a value as bytes: bytes and text as they are, anything else as JSON. Raises `TypeError`."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    try:
        return orjson.dumps(value)
    except TypeError as error:
        raise TypeError(
            f"a {type(value).__name__} cannot be sent: {error}. Send bytes, text, or what JSON can say"
        ) from None


def encoded_key(key: object) -> bytes | None:
    """Return a key as bytes. Raises `TypeError`."""
    if key is None or isinstance(key, bytes):
        return key
    if isinstance(key, str):
        return key.encode()
    raise TypeError(f"an output's key is a {type(key).__name__}: give bytes, text or None")
