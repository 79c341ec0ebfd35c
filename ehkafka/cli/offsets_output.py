"""Puts results to stdout: text in whatever encoding it has, JSON indented; quietly when nobody reads."""

from __future__ import annotations

import sys
from typing import Any

import orjson

from ehkafka.cli.unread import quiet_pipe


def put_text(text: str) -> None:
    """Write lines."""
    with quiet_pipe():
        sys.stdout.buffer.write(f"{text}\n".encode(sys.stdout.encoding or "utf-8", "backslashreplace"))


def put_json(fields: dict[str, Any]) -> None:
    """Write one object."""
    with quiet_pipe():
        sys.stdout.buffer.write(orjson.dumps(fields, option=orjson.OPT_INDENT_2) + b"\n")
