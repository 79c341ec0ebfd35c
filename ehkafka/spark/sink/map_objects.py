"""Maps as Python dictionaries: pyarrow gives lists of pairs (its own option for that is young). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable

    Reader = Callable[[Any], Any]


def map_reader(kind: pa.DataType) -> Reader | None:
    """Return what turns the maps inside values of a type into dictionaries; None where there are none."""
    if pa.types.is_map(kind):
        return _of_map(map_reader(kind.item_type) or _same)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inner = map_reader(kind.value_type)
        return None if inner is None else _of_list(inner)
    if pa.types.is_struct(kind):
        found = {field.name: map_reader(field.type) for field in kind}
        readers = {name: reader for name, reader in found.items() if reader is not None}
        return _of_struct(readers) if readers else None
    return None


def _of_map(item: Reader) -> Reader:
    return lambda pairs: None if pairs is None else {key: item(value) for key, value in pairs}


def _of_list(inner: Reader) -> Reader:
    return lambda values: None if values is None else [inner(value) for value in values]


def _of_struct(readers: dict[str, Reader]) -> Reader:
    def read(value: dict[str, Any] | None) -> dict[str, Any] | None:
        if value is None:
            return None
        return {**value, **{name: reader(value[name]) for name, reader in readers.items()}}

    return read


def _same(value: Any) -> Any:
    return value
