"""The partition key that an AMQP or HTTPS producer gave its event, as Event Hubs hands it to Kafka clients.

The record's own key is null then, so this decides the record's lane: it runs on the poll thread for every
record without a key, and must be quick and never raise. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

PARTITION_KEY_HEADER: Final = "x-opt-partition-key"

# AMQP's binary (which the Python SDK sends for a bytes key), string and symbol: the form with one byte of
# length, and the one with four.
_SHORT = (0xA0, 0xA1, 0xA3)
_LONG = (0xB0, 0xB1, 0xB3)
_BINARY = (0xA0, 0xB0)


def partition_key_bytes(headers: Sequence[tuple[str, bytes | None]]) -> bytes | None:
    """Return the key's bytes, the same whether it came as an AMQP string or as plain UTF-8.

    Bytes that look like an AMQP string but are not exactly one are returned as they are. Of several such
    headers the last counts. `None` if there is none.
    """
    if not headers:
        return None
    for name, value in reversed(headers):
        if name == PARTITION_KEY_HEADER:
            return value and _content(value)
    return None


def _content(value: bytes) -> bytes:
    code = value[0]
    if code in _SHORT:
        begin = 2
    elif code in _LONG:
        begin = 5
    else:
        return value
    if len(value) < begin or int.from_bytes(value[1:begin], "big") != len(value) - begin:
        return value
    content = value[begin:]
    return content if code in _BINARY or _is_text(content) else value


def _is_text(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True
