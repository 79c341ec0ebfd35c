"""Epochs: the local numbering of partition assignments.

Pure; called by the poll thread alone. An epoch is new on every assign and stays while the partition is
retained; a result of an older epoch is stale.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ehkafka.records import TopicPartition


@dataclass(slots=True)
class Epochs:
    """Which partitions are ours now, each with its epoch."""

    current: dict[TopicPartition, int] = field(default_factory=dict)
    _last: dict[TopicPartition, int] = field(default_factory=dict)

    def begin(self, partition: TopicPartition) -> int:
        """Begin a new epoch of a partition that is not ours yet, and return its number."""
        assert partition not in self.current, f"{partition} was assigned twice without a revoke"
        epoch = self._last.get(partition, 0) + 1
        self._last[partition] = self.current[partition] = epoch
        return epoch

    def end(self, partition: TopicPartition) -> int | None:
        """End a partition's epoch and return its number, None when it was not ours."""
        return self.current.pop(partition, None)
