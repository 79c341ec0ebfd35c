"""Which partitions are new: added to their topic since the group began with it. Pure; the poll thread's.

A partition without a commit may be one that is not committed yet, which begins where `start` is, or one
that the topic has got since, whose records are not to be skipped. They are distinguished by the number of
partitions that the group's first commits carry in their metadata, each later commit too, and by the number
that this run found when it began.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.progress.metadata import LogFacts
    from ehkafka.records import TopicPartition


class FirstCounts:
    """How many partitions each topic had at first."""

    def __init__(self) -> None:
        # What the broker said when this run began; what commits and their copies said since, the lowest.
        self._at_start: dict[str, int] = {}
        self._carried: dict[str, int] = {}
        # The names of resets that commits carry, None for those without.
        self._resets: set[str | None] = set()

    def begin(self, partitions: Mapping[str, int]) -> None:
        """Take how many partitions topics have as the run begins. Before the poll thread starts."""
        self._at_start = dict(partitions)

    def note(self, facts: Mapping[TopicPartition, LogFacts]) -> None:
        """Take what commits or their copies say."""
        for partition, one in facts.items():
            self._resets.add(one.reset)
            if (first := one.first_partitions) is not None:
                self._carried[partition.topic] = min(first, self._carried.get(partition.topic, first))

    def is_carried(self, topic: str) -> bool:
        """Tell whether a commit or a copy has it."""
        return topic in self._carried

    def lowest(self, topic: str) -> int | None:
        """Return the lowest number that is known, None without any."""
        known = [counts[topic] for counts in (self._carried, self._at_start) if topic in counts]
        return min(known, default=None)

    def is_new(self, partition: TopicPartition) -> bool:
        """Tell whether the topic has got a partition since."""
        lowest = self.lowest(partition.topic)
        return lowest is not None and partition.partition >= lowest

    def completed(self, partition: TopicPartition, facts: LogFacts) -> LogFacts:
        """Return the facts that a partition's commits carry from now on: a count of its own stays."""
        if facts.first_partitions is not None:
            return facts
        return facts._replace(first_partitions=self.lowest(partition.topic))

    def begun(self, partition: TopicPartition, facts: LogFacts) -> LogFacts:
        """Return the same of a partition without a commit, with the name that all others' commits carry.

        Without it, its commits would ask for that reset again.
        """
        if facts.reset is None and len(self._resets) == 1:
            facts = facts._replace(reset=next(iter(self._resets)))
        return self.completed(partition, facts)
