"""Puts results to stdout: text in whatever encoding it has, JSON indented; quietly when nobody reads."""

from __future__ import annotations

import sys
from typing import Any

import orjson

from ehkafka.checks import printable
from ehkafka.cli.unread import quiet_pipe


def put_text(text: str) -> bool:
    """Write lines, and escape what could steer a terminal; return whether anybody may still read."""
    # Names of blobs, owners and members are among them: anybody's words.
    lines = "\n".join(printable(line) for line in text.split("\n"))
    return _put(lines.encode(sys.stdout.encoding or "utf-8", "backslashreplace"))


def put_json(fields: dict[str, Any], *, on_one_line: bool = False) -> bool:
    """Write one object; return whether anybody may still read."""
    option = 0 if on_one_line else orjson.OPT_INDENT_2
    return _put(orjson.dumps(_encodable(fields), option=option))


def _put(line: bytes) -> bool:
    with quiet_pipe():
        sys.stdout.buffer.write(line + b"\n")
        sys.stdout.buffer.flush()
        return True
    return False


def _encodable(value: Any) -> Any:
    """Return the same without what UTF-8 has no bytes for: a file's name may be of any bytes."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {name: _encodable(inner) for name, inner in value.items()}
    return [_encodable(inner) for inner in value] if isinstance(value, list) else value
