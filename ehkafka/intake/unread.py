"""Which logs of ours go on behind what was received, and which of these stand still. The poll thread's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ehkafka.positions.log_book import KNOWN_S

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ehkafka.intake.context import IntakeContext
    from ehkafka.records import TopicPartition


# Between two looks at all partitions.
_CHECK_S: Final = 0.05


class Unread:
    """Looks at what is ours, by the book of its logs: the other partitions gain by no pause."""

    def __init__(self, context: IntakeContext) -> None:
        self._context = context
        # Handlers that have something unread, and when that was looked at.
        self._names: set[str] = set()
        self._checked_s = float("-inf")

    def has(self, partition: TopicPartition) -> bool:
        """Tell whether the log of a partition of ours goes on behind what was received, or may."""
        owned = self._context.owned
        known = owned.logs.get(partition)
        if known is None or self._context.contact.now_s - known.at_s >= KNOWN_S:
            return True
        return known.end > (owned[partition].epoch.received.next_offset or known.start or 0)

    def names(self) -> set[str]:
        """Return the names of the handlers that have something unread."""
        now_s = self._context.clock()
        if now_s >= self._checked_s + _CHECK_S:
            self._checked_s = now_s
            owned = self._context.owned.items()
            self._names = {one.route.name for partition, one in owned if self.has(partition)}
        return self._names


class Standstill:
    """Which partitions lag while nothing of them arrives, and since when. Pure.

    Remembers up to where a partition had been received when its log was first seen to go on.
    """

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
