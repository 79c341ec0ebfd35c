"""JSON of what is shown: whatever a record, a key or an error has in it, all else still gets out. Pure."""

from __future__ import annotations

import json
from typing import Any

import orjson


def dumped(content: object) -> bytes:
    """Return it as JSON."""
    try:
        return orjson.dumps(content, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:
        # Half of a character pair, which a text may have and UTF-8 cannot say: in ASCII it can be written.
        return json.dumps(content, separators=(",", ":")).encode()


def loaded(text: bytes) -> Any:
    """Return what is in such JSON. Raises `ValueError`, and `RecursionError` for endless nesting."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return json.loads(text)  # it may have such a half
