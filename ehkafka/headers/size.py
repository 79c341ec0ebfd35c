"""How many bytes a record takes: its value, its key, and the names and values of its headers.

What the engine holds is bounded by this. Reading keys and headers costs as much as everything else that is
done with a record on its way into an inbox, so it is done for a batch at once, in C, and nothing is looked at
twice where no record has headers. Pure.
"""

from __future__ import annotations

from operator import add
from typing import TYPE_CHECKING, Any

from ehkafka.headers.taking import have_headers, take_headers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ehkafka.headers.taking import Headed


def size_of(message: Headed) -> int:
    """Return the bytes of one record."""
    key = message.key()
    size = len(message) if key is None else len(message) + len(key)
    headers = take_headers(message)
    return size + _headers_size(headers) if headers else size


def sizes_of(messages: Sequence[Headed]) -> list[int]:
    """Return the bytes of each record; all are of one type, as those of a batch are."""
    if not messages:
        return []
    kind: Any = type(messages[0])
    try:
        sizes = list(map(add, map(len, messages), map(len, map(kind.key, messages))))
    except TypeError:  # some have no key
        sizes = list(map(add, map(len, messages), (len(key or b"") for key in map(kind.key, messages))))
    if have_headers(messages):
        sizes = list(map(add, sizes, map(_headers_size, map(take_headers, messages))))
    return sizes


def _headers_size(headers: Any) -> int:
    return sum(len(name.encode(errors="replace")) + len(value or b"") for name, value in headers)
