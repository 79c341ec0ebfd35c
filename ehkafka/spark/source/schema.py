"""The columns of the source as Spark reads them: names, order and types of the JVM connector. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
"""Name → Spark's type."""


def ddl(columns: Iterable[str]) -> str:
    """Return the schema of these columns as Spark reads it."""
    return ", ".join(f"`{name}` {COLUMNS[name]}" for name in columns)
