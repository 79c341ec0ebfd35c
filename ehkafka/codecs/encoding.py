"""How a value becomes JSON: as the codec writes it that reads its type.

A dict, list or number is orjson's, which refuses what JSON cannot say. A dataclass, a struct, a NamedTuple
or a class of attrs is msgspec's, so that each field is read again as what it was; a model, and what holds
one, is pydantic's, by its aliases. A program with such a value has loaded its package. Called by workers.
"""

from __future__ import annotations

import dataclasses
from datetime import date, time
from enum import Enum
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

import orjson

from ehkafka.codecs.whose import holds_pydantics

if TYPE_CHECKING:
    from collections.abc import Callable

_PLAIN = frozenset({dict, list, str, int, float, bool})
_JSON_VALUES = (dict, list, tuple, int, float, date, time, UUID, Enum)
# Else a field whose name begins with `_` would be left out.
_OPTIONS = orjson.OPT_PASSTHROUGH_DATACLASS


def can_be_json(value: object) -> bool:
    """Tell whether `to_json` knows a value's type. What is inside of it shows when it is encoded."""
    kind: Any = type(value)
    return isinstance(value, _JSON_VALUES) or _typed(kind) is not None


def to_json(value: object) -> bytes:
    """Return a value as JSON. Raises `TypeError` for what JSON cannot say, inside of it too."""
    kind: Any = type(value)
    try:
        if kind in _PLAIN or (typed := _typed(kind)) is None:
            return orjson.dumps(value, _own_json, _OPTIONS)
        return typed.dumps(value)
    except (TypeError, ValueError) as error:
        # The libraries' own texts show no value; what `_own_json` says is in the cause.
        raise TypeError(f"a {kind.__qualname__} cannot be sent as JSON: {error}") from error


@dataclasses.dataclass(frozen=True, slots=True)
class _Typed:
    """How values of one type are written: alone, and inside of a dict or a list."""

    dumps: Callable[[Any], bytes]
    builtins: Callable[[Any], Any]


@lru_cache(maxsize=1024)
def _typed(kind: Any) -> _Typed | None:
    """Return how a type with fields is written; None for any other one."""
    if hasattr(kind, "__pydantic_validator__") and hasattr(kind, "model_dump"):
        return _Typed(lambda value: orjson.dumps(_of_model(value)), _of_model)
    has_fields = dataclasses.is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))
    if not (has_fields or hasattr(kind, "__struct_fields__") or hasattr(kind, "__attrs_attrs__")):
        return None
    if holds_pydantics(kind):
        import pydantic  # noqa: PLC0415 - what it holds has loaded it

        adapter: Any = pydantic.TypeAdapter(kind)
        return _Typed(
            partial(adapter.dump_json, by_alias=True),
            partial(adapter.dump_python, mode="json", by_alias=True),
        )
    try:
        import msgspec  # noqa: PLC0415 - an extra
    except ImportError:
        if not has_fields:
            return None  # of attrs: no codec reads it either
        return _Typed(lambda value: orjson.dumps(_shallow(value), _own_json, _OPTIONS), _shallow)
    # An encoder of its own for each call: one of them must not be used by two threads at once.
    return _Typed(
        lambda value: msgspec.json.encode(value, enc_hook=_own_json),
        lambda value: msgspec.to_builtins(value, str_keys=True, enc_hook=_own_json),
    )


def _own_json(value: object) -> Any:
    """Return what the libraries can say in place of a value that they do not know."""
    kind: Any = type(value)
    if (typed := _typed(kind)) is None:
        raise TypeError(f"JSON knows no {kind.__qualname__}")
    return typed.builtins(value)


def _of_model(value: Any) -> object:
    """Return a model as plain values, under the names that it is read by."""
    by_alias = value.model_config.get("serialize_by_alias", True)
    return value.model_dump(mode="json", by_alias=by_alias)


def _shallow(value: Any) -> object:
    if isinstance(value, tuple):
        return list(value)
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
