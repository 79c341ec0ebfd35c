"""Which logs of ours go on behind what was received: the other partitions gain by no pause. Poll thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ehkafka.positions.log_book import KNOWN_S

if TYPE_CHECKING:
    from ehkafka.intake.context import IntakeContext
    from ehkafka.records import TopicPartition

# Between two looks at all partitions.
_CHECK_S: Final = 0.05


class Unread:
    """Looks at what is ours, by the book of its logs."""

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
        return known.end > (owned[partition].assignment.received_next or known.start or 0)

    def names(self) -> set[str]:
        """Return the names of the handlers that have something unread."""
        now_s = self._context.clock()
        if now_s >= self._checked_s + _CHECK_S:
            self._checked_s = now_s
            owned = self._context.owned.items()
            self._names = {one.route.name for partition, one in owned if self.has(partition)}
        return self._names
