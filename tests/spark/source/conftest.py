"""A log in memory for what the driver decides, and options for an embedded broker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from ehkafka.records import TopicPartition
from ehkafka.spark.source.consumers import close_idle
from ehkafka.spark.source.options import options_from
from ehkafka.testing import EmbeddedBroker

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from ehkafka.spark.source.options import SourceOptions


@dataclass
class FakeLog:
    """Logs as numbers: where each begins and ends, when records are, what a group committed."""

    first: dict[TopicPartition, int] = field(default_factory=dict)
    last: dict[TopicPartition, int] = field(default_factory=dict)
    commits: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    # One record a millisecond, the first at 1000 ms.
    asked: list[str] = field(default_factory=list)

    def grow(self, topic: str, *ends: int) -> None:
        """Let the topic's logs end there; partitions that are new begin at 0."""
        for number, end in enumerate(ends):
            partition = TopicPartition(topic, number)
            self.first.setdefault(partition, 0)
            self.last[partition] = end

    def topics(self) -> tuple[str, ...]:
        """The names."""
        return tuple(sorted({one.topic for one in self.last}))

    def partitions(self) -> tuple[TopicPartition, ...]:
        """What is there."""
        return tuple(sorted(self.last))

    def starts(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """First offsets; noted in `asked`."""
        self.asked.append("starts")
        return {one: self.first[one] for one in partitions}

    def ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Offsets after the last records; noted in `asked`."""
        self.asked.append("ends")
        return {one: self.last[one] for one in partitions}

    def at(self, moments_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Offsets of moments."""
        found = {one: max(0, moment - 1000) for one, moment in moments_ms.items()}
        return {one: offset if offset < self.last[one] else None for one, offset in found.items()}

    def committed(
        self, group: str, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int | None]:
        """A group's commits."""
        return {one: self.commits.get(group, {}).get(one) for one in partitions}


@pytest.fixture
def log() -> FakeLog:
    """Return a log without topics."""
    return FakeLog()


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    """Return an embedded broker with the topic `readings` of two partitions."""
    with EmbeddedBroker({"readings": 2}) as embedded:
        yield embedded
        close_idle()


@pytest.fixture
def options(broker: EmbeddedBroker) -> Callable[..., SourceOptions]:
    """Return what makes options for the embedded broker."""

    def make(**given: str) -> SourceOptions:
        return options_from({"kafka.bootstrap.servers": broker.bootstrap, "subscribe": "readings", **given})

    return make
