"""Numbers that may be handed to librdkafka, which cuts others to the size of a C integer and trusts them."""

from __future__ import annotations

from typing import Final

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1


def is_whole(value: object, low: int, high: int = INT32_MAX) -> bool:
    """Tell whether it is an integer, and no flag, within these bounds."""
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
