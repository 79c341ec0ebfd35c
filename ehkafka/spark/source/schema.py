"""The columns of the source: names, order and types of the JVM connector. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

COLUMNS: Mapping[str, str] = {
    "key": "BINARY",
    "value": "BINARY",
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "timestampType": "INT",
    "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
}
"""Name → Spark's type. `headers` is there when it is asked for."""

WITHOUT_HEADERS = tuple(name for name in COLUMNS if name != "headers")


def ddl(columns: Iterable[str]) -> str:
    """Return the schema of these columns as Spark reads it."""
    return ", ".join(f"`{name}` {COLUMNS[name]}" for name in columns)


def chosen(names: Iterable[str]) -> tuple[str, ...]:
    """Return columns as asked for, in that order. Raises `ConfigurationError` for one that is not there."""
    by_lower = {name.lower(): name for name in COLUMNS}
    found = []
    for name in names:
        if name.lower() not in by_lower:
            raise ConfigurationError(
                f"Option columns: there is no column {name!r:.80}; there are {', '.join(COLUMNS)}."
            )
        found.append(by_lower[name.lower()])
    return tuple(dict.fromkeys(found))
