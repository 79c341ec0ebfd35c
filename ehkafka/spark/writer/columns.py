"""The columns of a frame that become parts of a message: the JVM connector's names and types. Pure.

Checked on the driver before the first task, by the names and types that Spark shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "topic": ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
}
"""Columns by name, with Spark's words for the types that each may have. Other columns are ignored."""


def check_columns(columns: Iterable[tuple[str, str]]) -> frozenset[str]:
    """Return which of the columns there are, by pairs of a column's name and the text of its type.

    Raises `ConfigurationError`.
    """
    columns = list(columns)
    found: set[str] = set()
    for name, kind in columns:
        if name in found:
            raise ConfigurationError(f"Two columns are called {name}: rename one with withColumnRenamed.")
        # A string may name its collation behind it.
        if name in TYPES and (kind if kind[:7] != "string " else "string") not in TYPES[name]:
            fix = "to_json makes a text of it" if "<" in kind and name != "headers" else "cast it"
            raise ConfigurationError(
                f"Column {name} is of type {kind}, and ehkafka writes {' or '.join(TYPES[name])} there:"
                f" {fix}."
            )
        found |= {name} & TYPES.keys()
    if "value" not in found:
        raise ConfigurationError(
            "There is no column value, which is what ehkafka writes; the frame's columns are:"
            f" {', '.join(name for name, _ in columns)}. Make one, as with"
            " selectExpr('to_json(struct(*)) AS value')."
        )
    return frozenset(found)
