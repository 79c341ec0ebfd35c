"""What needs no further package: bytes as they are, text, and JSON by orjson."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from ehkafka.codecs.encoding import to_json
from ehkafka.codecs.reason import Misfit, of_library

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class PlainCodec:
    """A codec of two functions."""

    name: str
    content_type: str | None
    decode: Callable[[bytes], Any]
    encoded: Callable[[Any], bytes]

    def encode(self, value: object) -> bytes:
        """Return the bytes for a value."""
        return self.encoded(value)

    def misfit(self, error: Exception) -> str | None:
        """Return why the payload does not fit."""
        return of_library(error)


def _json_of(kind: type, name: str, value: bytes) -> Any:
    found = orjson.loads(value)
    if type(found) is kind:
        return found
    raise Misfit(f"it is {_JSON_KINDS[type(found)]}, not an {name}")


_JSON_KINDS: dict[type, str] = {
    dict: "a JSON object",
    list: "a JSON array",
    str: "a JSON string",
    int: "a number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}


_JSON_TYPE = "application/json"
BYTES = PlainCodec("bytes", None, bytes, bytes)
BYTEARRAY = PlainCodec("bytearray", None, bytearray, bytes)
MEMORYVIEW = PlainCodec("memoryview", None, memoryview, bytes)
TEXT = PlainCodec("str", "text/plain; charset=utf-8", bytes.decode, str.encode)
JSON_OBJECT = PlainCodec("dict", _JSON_TYPE, partial(_json_of, dict, "object"), to_json)
JSON_LIST = PlainCodec("list", _JSON_TYPE, partial(_json_of, list, "array"), to_json)
# Encodes what orjson knows, and structs and models among it.
JSON = PlainCodec("JSON", _JSON_TYPE, orjson.loads, to_json)
