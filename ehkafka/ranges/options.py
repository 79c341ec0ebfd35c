"""What a reader tells this room: topics, the way to them, columns, what becomes of records that are gone.

Columns are in the order of Spark's own Kafka connector. Pure.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ehkafka.endpoint import Endpoint
    from ehkafka.ranges.loss import Words
    from ehkafka.records import TopicPartition

TIMEOUT_S: Final = 120.0
"""How long a reader waits for records that must be there, by default, as the JVM connector does."""
WITHOUT_HEADERS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
NAMES: Final = (*WITHOUT_HEADERS, "headers")
"""`headers` is read when it is asked for."""


def chosen_columns(names: Iterable[str]) -> tuple[str, ...]:
    """Return columns as asked for, in that order. Raises `ConfigurationError` for one that is not there."""
    by_lower = {name.lower(): name for name in NAMES}
    found = []
    for name in names:
        if name.lower() not in by_lower:
            raise ConfigurationError(
                f"Option columns: there is no column {name!r:.80}; the columns are {', '.join(NAMES)}."
            )
        found.append(by_lower[name.lower()])
    return tuple(dict.fromkeys(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeOptions(ABC):
    """The options of a reader, as far as this room reads them. Each kind of reader adds its own."""

    # A regular expression for the whole names of the topics; None where the topics are named.
    pattern: str | None = None
    # The partitions to read; all of the topics if empty.
    assigned: tuple[TopicPartition, ...] = ()
    # The group whose commits are read. It is never joined.
    group: str | None = None
    # Whether records that are gone end the reading.
    fail_on_data_loss: bool = True
    # How long the reader waits for records that must be there.
    timeout_s: float = TIMEOUT_S
    # The words of its messages.
    words: Words

    @abstractmethod
    def broker(self) -> Endpoint:
        """Return this process's way to the broker. Raises `ConfigurationError` if none exists."""

    @abstractmethod
    def named_topics(self) -> tuple[str, ...]:
        """Return the topics by name, none of a pattern. Raises `ConfigurationError` without either."""
