"""The names of the columns, in the order of Spark's own Kafka connector. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable

WITHOUT_HEADERS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
NAMES: Final = (*WITHOUT_HEADERS, "headers")
"""`headers` is read when it is asked for."""


def chosen(names: Iterable[str]) -> tuple[str, ...]:
    """Return columns as asked for, in that order. Raises `ConfigurationError` for one that is not there."""
    by_lower = {name.lower(): name for name in NAMES}
    found = []
    for name in names:
        if name.lower() not in by_lower:
            raise ConfigurationError(
                f"Option columns: there is no column {name!r:.80}; there are {', '.join(NAMES)}."
            )
        found.append(by_lower[name.lower()])
    return tuple(dict.fromkeys(found))
