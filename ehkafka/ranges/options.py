"""What a reader tells this room: topics, the way to them, columns, what becomes of records that are gone.

Columns are in the order of Spark's own Kafka connector. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ehkafka.endpoint import Endpoint
    from ehkafka.ranges.loss import Words
    from ehkafka.records import TopicPartition

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


class RangeOptions(Protocol):
    """The options of a reader, as far as this room reads them."""

    @property
    def pattern(self) -> str | None:
        """A regular expression for the whole names of the topics; None where the topics are named."""

    @property
    def assigned(self) -> tuple[TopicPartition, ...]:
        """The partitions to read; all of the topics if empty."""

    @property
    def group(self) -> str | None:
        """The group whose commits are read. It is never joined."""

    @property
    def fail_on_data_loss(self) -> bool:
        """Whether records that are gone end the reading."""

    @property
    def timeout_s(self) -> float:
        """How long the reader waits for records that must be there."""

    @property
    def words(self) -> Words:
        """The words of its messages."""

    def broker(self) -> Endpoint:
        """Return this process's way to the broker. Raises `ConfigurationError` if none exists."""

    def named_topics(self) -> tuple[str, ...]:
        """Return the topics by name, none of a pattern. Raises `ConfigurationError` without either."""
