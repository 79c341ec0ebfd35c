"""The topics of a simulation: partitions that grow, with holes as compaction and transactions leave them."""

from __future__ import annotations

from bisect import bisect_left
from copy import copy
from typing import TYPE_CHECKING

from ehkafka.records import TopicPartition
from tests.kit.simulated.message import WatchedMessage

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable

    from tests.kit.simulated.plan import SimulationPlan

_LEADER_CHANGE_SHARE = 0.02


class SimulatedLog:
    """Records by partition, appended at random. One thread."""

    def __init__(self, plan: SimulationPlan, rng: random.Random, seam: Callable[[], object]) -> None:
        self._plan = plan
        self._rng = rng
        self._seam = seam
        names = "tu"[: plan.topics]
        self.partitions = [TopicPartition(name, n) for name in names for n in range(plan.partitions)]
        self._messages: dict[TopicPartition, list[WatchedMessage]] = {p: [] for p in self.partitions}
        self._offsets: dict[TopicPartition, list[int]] = {p: [] for p in self.partitions}
        self._leader_epochs = dict.fromkeys(self.partitions, 1)
        # Offset after the last record.
        self.ends = dict.fromkeys(self.partitions, plan.log_start)
        self.produced = 0

    def append(self) -> tuple[TopicPartition, int]:
        """Append one record somewhere; return its place."""
        plan, rng = self._plan, self._rng
        partition = rng.choice(self.partitions)
        offset = self.ends[partition]
        if rng.random() < plan.holes_share:
            offset += rng.randint(1, 3)
        if rng.random() < _LEADER_CHANGE_SHARE:
            self._leader_epochs[partition] += 1
        key = None if rng.random() < plan.null_keys_share else b"k%d" % rng.randrange(plan.keys)
        value = None if rng.random() < 0.1 else b"x" * rng.randint(0, 50)
        leader_epoch = self._leader_epochs[partition]
        message = WatchedMessage(*partition, offset, key, value, leader_epoch=leader_epoch)
        message.seam = self._seam
        self._messages[partition].append(message)
        self._offsets[partition].append(offset)
        self.ends[partition] = offset + 1
        self.produced += 1
        return partition, offset

    def fetch(
        self, positions: Iterable[tuple[TopicPartition, int]], records_max: int
    ) -> list[list[WatchedMessage]]:
        """Return batches, one per partition and ascending, of at most so many records together."""
        batches = []
        for partition, position in positions:
            first = bisect_left(self._offsets[partition], position)
            known = self._messages[partition][first : first + self._rng.randint(0, records_max)]
            # What is received again is another object, as from a broker.
            batch = [copy(message) for message in known]
            records_max -= len(batch)
            if batch:
                batches.append(batch)
        return batches

    def offsets(self, partition: TopicPartition) -> list[int]:
        """Return the offsets of all records that a partition has."""
        return self._offsets[partition]

    def leader_epoch_at(self, partition: TopicPartition, offset: int) -> int | None:
        """Return the leader epoch of the record at an offset, `None` where there is a hole."""
        index = bisect_left(self._offsets[partition], offset)
        there = self._offsets[partition][index : index + 1] == [offset]
        return self._messages[partition][index].leader_epoch() if there else None
