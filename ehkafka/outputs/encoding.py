"""The bytes of what is sent. Pure but for the codecs."""

from __future__ import annotations

from typing import Any

from ehkafka.codecs.codec import codec_of_value
from ehkafka.outputs.checked import checked_pairs
from ehkafka.outputs.send import Send

CONTENT_TYPE = "content-type"
# What a record's frame takes in addition to value, key and headers, at most.
FRAME_BYTES = 128


def encoded(value: object) -> tuple[bytes | None, str | None]:
    """Return a value as bytes, and its content type where that says something.

    Raises `TypeError` or `ValueError` for what cannot be sent.
    """
    if value is None or type(value) is bytes:
        return value, None
    if isinstance(value, Send):
        raise TypeError(
            "a Send is a whole message and no value: return it as it is, or call record.send(value, key=…)"
        )
    codec = codec_of_value(value)
    return codec.encode(value), codec.content_type


def encoded_key(key: object) -> bytes | None:
    """Return a key as bytes. Raises `TypeError`."""
    if key is None or isinstance(key, bytes):
        return key
    if isinstance(key, str):
        return key.encode()
    raise TypeError(f"an output's key is a {type(key).__name__}: give bytes, text or None")


def encoded_headers(headers: Any, content_type: str | None) -> list[tuple[str, bytes | None]] | None:
    """Return headers as pairs, with the content type where none is given."""
    if headers is None and content_type is None:
        return None
    found = checked_pairs(headers)
    if content_type is not None and not any(name == CONTENT_TYPE for name, _ in found):
        found.append((CONTENT_TYPE, content_type.encode()))
    return found


def checked_size(
    what: str,
    topic: str,
    value: bytes | None,
    key: bytes | None,
    headers: list[tuple[str, bytes | None]] | None,
    bytes_max: int,
) -> int:
    """Return how many bytes are sent. Raises `ValueError` with the sizes where they are too many."""
    size = len(value or b"") + len(key or b"")
    if headers:
        size += sum(len(name.encode()) + len(one or b"") for name, one in headers)
    if size + FRAME_BYTES > bytes_max:
        raise ValueError(
            f"{what} to {topic!r} has {size} bytes, and it may have {bytes_max - FRAME_BYTES} at most: send "
            "less, or raise the property message.max.bytes here and at the topic: "
            "App(producer={'message.max.bytes': …})"
        )
    return size
