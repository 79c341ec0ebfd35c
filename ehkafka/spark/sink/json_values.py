"""Arrow columns as Python values that `files` has a form for, at any depth. Pure.

Maps become dictionaries. What Python or JSON cannot say becomes text in the form that Spark's `to_json` has:
NaN and the infinities, days and times outside the years 1 to 9999, text that is not UTF-8. Nothing raises for
what a row holds, because that would end a query for what a producer wrote; and no entry of a map is lost:
of two names that look alike the second one gets a number.
"""

from __future__ import annotations

import datetime as dt
import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# The calendar repeats itself after so many years; 2000 is the first one of such a cycle.
_CYCLE_YEARS = 400
_CYCLE_DAYS = 146_097
_CYCLE_BEGIN = dt.date(2000, 1, 1)
_CYCLE_BEGIN_DAY = 10_957  # since 1970
_DAY_US = 86_400_000_000
_LAST_YEAR = 9999


def json_values(array: pa.Array) -> list[Any]:
    """Return the values of a column, None for null."""
    kind = array.type
    if not len(array):
        return []
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        return _with_nulls(_rows(names, array.flatten(), len(array)), array)
    if pa.types.is_map(kind):
        pairs = zip(_parts(array, array.keys), _parts(array, array.items), strict=True)
        return _with_nulls([_object(*pair) for pair in pairs], array)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _with_nulls(_parts(array, array.values), array)
    if pa.types.is_floating(kind):
        return [_number(value) for value in array.to_pylist()]
    try:
        values: list[Any] = array.to_pylist()
    except (UnicodeDecodeError, OverflowError):
        return _as_text(array)
    return values


def json_rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Return a batch's rows."""
    return _rows(batch.schema.names, batch.columns, batch.num_rows)


def _rows(names: Sequence[str], columns: Iterable[pa.Array], count: int) -> list[dict[str, Any]]:
    values = [json_values(column) for column in columns]
    if not values:
        return [{}] * count
    return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


def _parts(array: pa.Array, inner: pa.Array) -> list[list[Any]]:
    """Return what each list has of the values inside; a slice of an array shares them with the whole."""
    offsets = array.offsets.to_pylist()
    first = offsets[0]
    values = json_values(inner.slice(first, offsets[-1] - first))
    return [values[start - first : end - first] for start, end in pairwise(offsets)]


def _object(names: list[Any], values: list[Any]) -> dict[Any, Any]:
    found = dict(zip(names, values, strict=True))
    if len(found) == len(names):
        return found
    found = {}
    for name, value in zip(names, values, strict=True):
        found[_free(name, found)] = value
    return found


def _free(name: object, taken: dict[Any, Any]) -> object:
    """Return the name, with a number where an object has it already."""
    if name not in taken:
        return name
    number = 2
    while (numbered := f"{name}#{number}") in taken:
        number += 1
    return numbered


def _with_nulls(values: list[Any], array: pa.Array) -> list[Any]:
    if not array.null_count:
        return values
    return [
        value if is_there else None
        for value, is_there in zip(values, array.is_valid().to_pylist(), strict=True)
    ]


def _number(value: float | None) -> float | str | None:
    """Return a number, or its name where JSON has no digits for it."""
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _as_text(array: pa.Array) -> list[Any]:
    """Return a column of which Python cannot say some values: all of it as text."""
    kind = array.type
    if pa.types.is_date32(kind):
        return _each(_day, array.cast(pa.int32()))
    if pa.types.is_timestamp(kind):
        suffix = "" if kind.tz is None else "Z"
        since_1970_us = array.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
        return _each(lambda value: _moment(value) + suffix, since_1970_us)
    return _each(lambda raw: raw.decode(errors="replace"), array.cast(pa.large_binary()))


def _each(form: Any, array: pa.Array) -> list[str | None]:
    return [None if value is None else form(value) for value in array.to_pylist()]


def _day(since_1970: int) -> str:
    cycles, days = divmod(since_1970 - _CYCLE_BEGIN_DAY, _CYCLE_DAYS)
    day = _CYCLE_BEGIN + dt.timedelta(days=days)
    return f"{_year(day.year + cycles * _CYCLE_YEARS)}-{day:%m-%d}"


def _moment(since_1970_us: int) -> str:
    days, rest_us = divmod(since_1970_us, _DAY_US)
    clock = dt.datetime.combine(_CYCLE_BEGIN, dt.time()) + dt.timedelta(microseconds=rest_us)
    return f"{_day(days)}T{clock.time().isoformat()}"


def _year(year: int) -> str:
    """Return a year as ISO 8601 and Java write it: four digits, or more of them behind a sign."""
    if 0 <= year <= _LAST_YEAR:
        return f"{year:04d}"
    return f"{year:+05d}"
