"""Which columns a file format cannot hold; reported before the first batch. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pyspark.sql import types

from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ehkafka.spark.sink.options import FileFormat

# By name: older versions of PySpark lack some.
_NOT_FOR_FILES = {
    "VariantType",
    "CalendarIntervalType",
    "YearMonthIntervalType",
    "GeometryType",
    "GeographyType",
}
_NOT_FOR_JSON_KEYS = {"BinaryType", "DecimalType", "StructType", "ArrayType", "DayTimeIntervalType"}


def check_columns(schema: types.StructType, file_format: FileFormat) -> None:
    """Refuse names and types without a form in the format. Raises `ConfigurationError`."""
    if not schema.fields:
        raise ConfigurationError("The stream has no columns, so there is nothing to write; select columns")
    for name, kind in _all_types("", schema):
        if isinstance(kind, types.StructType):
            _check_fields(name, kind, file_format)
        elif type(kind).__name__ in _NOT_FOR_FILES:
            raise ConfigurationError(
                f"Column {name!r} is of type {kind.simpleString()}, which ehkafka-blob cannot write as "
                f"{file_format}: convert the column to text first, with to_json or cast"
            )
        elif file_format == "jsonl" and _key_of(kind) in _NOT_FOR_JSON_KEYS:
            raise ConfigurationError(
                f"Column {name!r} is a {kind.simpleString()}, but names in JSON are text: convert the keys "
                "to text first, with transform_keys"
            )


def _check_fields(name: str, kind: types.StructType, file_format: FileFormat) -> None:
    if doubles := [each for each, count in Counter(kind.names).items() if count > 1]:
        raise ConfigurationError(
            f"Two columns are called {_below(name, doubles[0])!r}; rename one with withColumnRenamed"
        )
    if not kind.fields and file_format == "parquet":
        raise ConfigurationError(
            f"Column {name!r} is a struct without fields, which Parquet cannot hold: drop the column, or "
            "write jsonl"
        )


def _key_of(kind: types.DataType) -> str | None:
    return type(_sent(kind.keyType)).__name__ if isinstance(kind, types.MapType) else None


def _all_types(name: str, kind: types.DataType) -> Iterator[tuple[str, types.DataType]]:
    """Yield a type and all inside it, each with the column's name as a query would write it."""
    kind = _sent(kind)
    yield name, kind
    if isinstance(kind, types.StructType):
        for field in kind.fields:
            yield from _all_types(_below(name, field.name), field.dataType)
    elif isinstance(kind, types.ArrayType):
        yield from _all_types(name, kind.elementType)
    elif isinstance(kind, types.MapType):
        yield from _all_types(name, kind.keyType)
        yield from _all_types(name, kind.valueType)


def _sent(kind: types.DataType) -> types.DataType:
    """Return what Spark sends: a user's own type as what it is made of."""
    return _sent(kind.sqlType()) if isinstance(kind, types.UserDefinedType) else kind


def _below(name: str, field: str) -> str:
    return f"{name}.{field}" if name else field
