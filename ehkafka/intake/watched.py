"""What a watch over logs needs to know of the partitions whose logs it watches: `WatchedLogs`.

An app's are its owned partitions; a drop-in has its own (`consumer.carried_facts`). Poll thread only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.intake.owned import OwnedPartitions
    from ehkafka.positions.same_log import WitnessRecord
    from ehkafka.progress.metadata import LogFacts
    from ehkafka.records import TopicPartition


class WatchedLog(NamedTuple):
    """How far one partition has got in its epoch: its last finished record, and its newest leader epoch."""

    epoch: int
    witness: WitnessRecord | None
    leader_epoch: int | None


class WatchedLogs(Protocol):
    """The partitions, and what their commits say of their logs."""

    def now(self) -> Mapping[TopicPartition, WatchedLog]:
        """Return all that are watched, as they are now."""
        ...

    def carried(self, partition: TopicPartition) -> LogFacts:
        """Return the facts that a partition's commits carry."""
        ...

    def carry(self, partition: TopicPartition, facts: LogFacts) -> None:
        """Let a partition's commits carry these."""
        ...


class OwnedLogs:
    """The logs of an app's partitions."""

    def __init__(self, owned: OwnedPartitions) -> None:
        self._owned = owned
        self.carried = owned.saver.carried
        self.carry = owned.saver.carry

    def now(self) -> Mapping[TopicPartition, WatchedLog]:
        """Return all that are owned."""
        return {
            partition: WatchedLog(
                one.epoch, one.anchor, one.marks.last.leader_epoch if one.marks.last else None
            )
            for partition, (_, one) in self._owned.items()
        }
