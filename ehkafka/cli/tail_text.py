"""Writes a record as a line: for eyes with every control character escaped, for programs as JSON.

Pure. What comes from the wire is hostile: an escape sequence in a value must not reach a terminal, in
neither form, and no value makes it fail.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson
from rich.text import Text

from ehkafka.checks import printable

if TYPE_CHECKING:
    from ehkafka import Record

CHARACTERS_MAX = 300
"""A longer value, key or header is cut and its size reported."""

# JSON leaves these as they are, but a terminal may obey them: DEL and the C1 control characters.
_LEFT_BY_JSON = {code: f"\\u{code:04x}" for code in range(0x7F, 0xA0)}


def as_text(record: Record, *, full: bool = False) -> Text:
    """Return time, partition@offset, key, value and properties in one line."""
    limit = None if full else CHARACTERS_MAX
    time = record.time
    stamp = time.isoformat(timespec="milliseconds").replace("+00:00", "Z") if time else "-"
    text = Text()
    text.append(f"{stamp} ", "dim").append(f"{record.partition()}@{record.offset()} ", "cyan")
    text.append(f"{shown(record.partition_key, limit)} ", "green").append(shown(record.value(), limit))
    if properties := record.properties:
        pairs = (f"{shown(name, limit)}={shown(value, limit)}" for name, value in properties.items())
        text.append(f"  {' '.join(pairs)}", "magenta")
    return text


def as_json(record: Record) -> bytes:
    """Return one line; bytes that are no UTF-8 become `{"base64": "…"}`. Nothing is cut."""
    fields: dict[str, Any] = {
        "topic": record.topic(),
        "partition": record.partition(),
        "offset": record.offset(),
        "time": record.time,
        "key": record.key(),
        "partition_key": record.partition_key,
        "value": record.value(),
        "properties": record.properties,
        "system_properties": record.system_properties,
    }
    return in_json(fields)


def in_json(fields: dict[str, Any]) -> bytes:
    """Return JSON that no terminal obeys, whatever is in it."""
    dumped = orjson.dumps(plain(fields), option=orjson.OPT_NAIVE_UTC)
    return dumped.decode().translate(_LEFT_BY_JSON).encode()


def shown(value: object, limit: int | None) -> str:
    """Return a value in printable characters, cut after `limit` of them; bytes that are no text as base64."""
    if value is None:
        return "-"
    data = value
    if isinstance(value, bytes):
        data = _decoded(value)
        if data is None:
            data = f"base64:{base64.b64encode(value if limit is None else value[:limit]).decode()}"
    text = str(data)
    if limit is None or len(text) <= limit:
        return printable(text)
    size = len(value) if isinstance(value, bytes) else len(text.encode(errors="replace"))
    return f"{printable(text[:limit])}… ({size} bytes)"


def _decoded(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def plain(value: Any) -> Any:
    """Return what JSON can say; text for whatever it cannot."""
    if isinstance(value, bytes):
        text = _decoded(value)
        return {"base64": base64.b64encode(value).decode()} if text is None else text
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()  # a lone surrogate is not UTF-8
    if isinstance(value, Mapping):
        return {str(plain(name)): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    try:
        orjson.dumps(value)
    except TypeError:  # which orjson's own error is
        return str(value)
    return value
