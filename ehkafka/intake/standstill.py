"""Which partitions lag while nothing of them arrives, and since when. Pure; the poll thread's."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ehkafka.records import TopicPartition


class Standstill:
    """Remembers up to where a partition had been received when its log was first seen to go on."""

    def __init__(self) -> None:
        # Replaced, never changed: others read it.
        self._since: dict[TopicPartition, tuple[int, float]] = {}

    def check(self, behind: Iterable[tuple[TopicPartition, int]], now_s: float) -> None:
        """Take which partitions are behind now, and the next offset that each waits for."""
        known = self._since
        found: dict[TopicPartition, tuple[int, float]] = {}
        for partition, received_next in behind:
            seen = known.get(partition)
            found[partition] = seen if seen and seen[0] == received_next else (received_next, now_s)
        self._since = found

    def forget_all(self) -> None:
        """Begin anew: silence proves nothing now."""
        self._since = {}

    def lasts_s(self, partition: TopicPartition, received_next: int, now_s: float) -> float:
        """Return for how long a partition has stood still; 0 where it has moved since the last look."""
        seen = self._since.get(partition)
        return 0.0 if seen is None or seen[0] != received_next else max(0.0, now_s - seen[1])
