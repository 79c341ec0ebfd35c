"""What a user says of an output in addition to its value, checked while the handler still runs.

Later the client would refuse it, and that would look like a refusal of the broker. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

PARTITION_MAX: Final = 2**31 - 1
ANY_PARTITION: Final = -1


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
