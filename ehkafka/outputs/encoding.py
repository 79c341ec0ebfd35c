"""An output's bytes. Pure but for the codecs."""

from __future__ import annotations

from ehkafka.codecs.codec import codec_of_value
from ehkafka.outputs.send import Send

CONTENT_TYPE = "content-type"


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
