"""The bytes of what is sent, checked while the handler still runs. Pure but for the codecs.

Later the client would refuse it, and that would look like a refusal of the broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ehkafka.codecs.codec import codec_of_value
from ehkafka.outputs.send import Send

CONTENT_TYPE = "content-type"
# What a record's frame takes in addition to value, key and headers, at most.
FRAME_BYTES = 128
PARTITION_MAX: Final = 2**31 - 1
ANY_PARTITION: Final = -1


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


def checked_pairs(headers: Any) -> list[tuple[str, bytes | None]]:
    """Return headers as pairs of name and bytes. Raises `TypeError` or `ValueError` for what is none."""
    if not headers and (headers is None or isinstance(headers, Iterable)):
        return []
    if isinstance(headers, str | bytes) or not isinstance(headers, Iterable):
        raise _no_headers(headers)
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return [_pair(one) for one in pairs]


def checked_partition(partition: Any) -> int:
    """Return a partition's number, -1 for none. Raises `ValueError`."""
    if partition is None:
        return ANY_PARTITION
    if type(partition) is not int or not ANY_PARTITION <= partition <= PARTITION_MAX:
        raise ValueError(
            f"an output's partition is {partition!r:.40}: give its number from 0 on, or None: the key decides"
        )
    return partition


def _pair(given: Any) -> tuple[str, bytes | None]:
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise _no_headers(given)
    name, value = given
    if not isinstance(name, str):
        raise TypeError(f"the name of an output's header is a {type(name).__name__}: give text")
    if "\0" in name:
        # The client would take what stands before it for the name.
        raise ValueError(f"the name {name!r} of an output's header has a NUL character: leave that out")
    if isinstance(value, str):
        value = value.encode()
    if value is not None and not isinstance(value, bytes):
        raise TypeError(f"header {name!r} of an output is a {type(value).__name__}: give text, bytes or None")
    return name, value


def _no_headers(given: Any) -> TypeError:
    return TypeError(
        f"among an output's headers is a {type(given).__name__}: give a mapping of names and values, or a "
        "list of (name, value)"
    )
