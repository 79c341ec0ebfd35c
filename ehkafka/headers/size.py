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


# Keys that are no longer than this on average: none of them says much about the next batch's largest record.
SHORT_KEY_BYTES = 64


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


def total_and_largest(messages: Sequence[Headed]) -> tuple[int, int]:
    """Return the bytes of all records together, and of the largest: without its key where keys are short.

    Half the price of `sizes_of`, for records that nobody needs to know one by one.
    """
    kind: Any = type(messages[0])
    values = list(map(len, messages))
    try:
        keys_size = len(b"".join(map(kind.key, messages)))
    except TypeError:  # some have no key
        keys_size = SHORT_KEY_BYTES * len(messages) + 1
    if keys_size > SHORT_KEY_BYTES * len(messages) or have_headers(messages):
        sizes = sizes_of(messages)
        return sum(sizes), max(sizes)
    return sum(values) + keys_size, max(values)


def _headers_size(headers: Any) -> int:
    return sum(len(name.encode(errors="replace")) + len(value or b"") for name, value in headers)
