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
        if name not in TYPES:
            continue
        # A string may name its collation behind it.
        if (kind.split(" ")[0] if kind.startswith("string ") else kind) not in TYPES[name]:
            raise ConfigurationError(
                f"Column {name} is of type {kind}, and ehkafka writes {' or '.join(TYPES[name])} there:"
                f" {_advice(name, kind)}."
            )
        found.add(name)
    if "value" not in found:
        names = ", ".join(name for name, _ in columns) or "none"
        raise ConfigurationError(
            f"There is no column value, which is what ehkafka writes; the frame's columns are: {names}. Make"
            " one, as with selectExpr('to_json(struct(*)) AS value')."
        )
    return frozenset(found)


def check_topic(columns: frozenset[str], option: str | None, of_endpoint: str | None) -> str | None:
    """Return the topic of all rows, None where a column names it. Raises `ConfigurationError` without any.

    The option counts more than the column, as with the JVM connector, and the column more than the
    connection string.
    """
    if option is not None:
        return option
    if "topic" in columns:
        return None
    if of_endpoint is None:
        raise ConfigurationError(
            "No topic is named: give the option topic, or a column topic with the topic of each row."
        )
    return of_endpoint


def _advice(name: str, kind: str) -> str:
    if name == "headers":
        return "make it an array of structs with key (text) and value (binary)"
    if name == "partition":
        return "cast it to int"
    if name in {"key", "value"} and kind.startswith(("struct", "array", "map")):
        return f"write to_json({name}) AS {name}, or make bytes of it"
    return f"cast {name} to string"
