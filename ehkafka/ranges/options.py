"""What a reader tells this room: which topics, by which way, and what becomes of records that are gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ehkafka.endpoint import Endpoint
    from ehkafka.ranges.loss import Words
    from ehkafka.records import TopicPartition


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
