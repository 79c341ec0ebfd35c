"""What needs no further package: bytes as they are, text, and JSON by orjson."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import date, time
from enum import Enum
from typing import TYPE_CHECKING, Any
from uuid import UUID

import orjson

from ehkafka.codecs.reason import of_library

if TYPE_CHECKING:
    from collections.abc import Callable


class WrongKind(ValueError):  # noqa: N818 - says what the payload is, not that something broke
    """A payload is JSON, but of another kind than the handler asks for. Its text shows nothing of it."""


@dataclass(frozen=True, slots=True)
class PlainCodec:
    """A codec of two functions."""

    name: str
    content_type: str | None
    decode: Callable[[bytes], Any]
    encoded: Callable[[Any], bytes]

    def encode(self, value: Any) -> bytes:
        """Return the bytes for a value."""
        return self.encoded(value)

    def misfit(self, error: Exception) -> str | None:
        """Return why the payload does not fit."""
        return str(error) if isinstance(error, WrongKind) else of_library(error)


def can_be_json(value: object) -> bool:
    """Tell whether `to_json` knows a value's type. What is inside of it shows when it is encoded."""
    return isinstance(value, _JSON_VALUES) or _is_instance(value) or _has_own_json(value)


def to_json(value: Any) -> bytes:
    """Return a value as JSON. Raises `TypeError` for what JSON cannot say, inside of it too."""
    try:
        if _has_own_json(value):
            return orjson.dumps(_own_json(value), _own_json)
        return orjson.dumps(value, _own_json)
    except orjson.JSONEncodeError as error:
        # orjson's own text shows no value; what `_own_json` says is in its cause.
        raise TypeError(f"a {type(value).__qualname__} cannot be sent as JSON: {error}") from error


def _own_json(value: Any) -> Any:
    """Return what orjson can say in place of a struct or a model. Whoever has one has loaded its package."""
    kind = type(value)
    if hasattr(kind, "__struct_fields__"):
        import msgspec  # noqa: PLC0415

        return msgspec.to_builtins(value, str_keys=True)
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"JSON knows no {kind.__qualname__}")


def _has_own_json(value: object) -> bool:
    kind = type(value)
    return hasattr(kind, "__struct_fields__") or (
        hasattr(kind, "__pydantic_validator__") and hasattr(kind, "model_dump")
    )


def _is_instance(value: object) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _json_object(value: bytes) -> Any:
    found = orjson.loads(value)
    if type(found) is dict:
        return found
    raise WrongKind(f"it is {_JSON_KINDS[type(found)]}, not an object")


def _json_list(value: bytes) -> Any:
    found = orjson.loads(value)
    if type(found) is list:
        return found
    raise WrongKind(f"it is {_JSON_KINDS[type(found)]}, not an array")


_JSON_VALUES = (dict, list, tuple, int, float, date, time, UUID, Enum)
_JSON_KINDS: dict[type, str] = {
    dict: "a JSON object",
    list: "a JSON array",
    str: "a JSON string",
    int: "a number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}


def _text(value: bytes) -> str:
    return value.decode()


_JSON_TYPE = "application/json"
BYTES = PlainCodec("bytes", None, bytes, bytes)
TEXT = PlainCodec("str", "text/plain; charset=utf-8", _text, str.encode)
JSON_OBJECT = PlainCodec("dict", _JSON_TYPE, _json_object, to_json)
JSON_LIST = PlainCodec("list", _JSON_TYPE, _json_list, to_json)
# Encodes what orjson knows, and structs and models among it.
JSON = PlainCodec("JSON", _JSON_TYPE, orjson.loads, to_json)
