"""`enable.auto.commit`: when it is time, and what has moved.

Pure; time comes in as an argument. Polling thread only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ehkafka.consumer.positions import Positions
    from ehkafka.progress.ledger import Position
    from ehkafka.records import TopicPartition


class AutoCommit:
    """Says what is to be committed at each interval. With `interval_s` None only at a revoke and at close."""

    def __init__(self, interval_s: float | None, now_s: float) -> None:
        self._interval_s = interval_s
        self.next_s = float("inf") if interval_s is None else now_s + interval_s

    def is_due(self, now_s: float) -> bool:
        """Tell whether an interval is over, and begin the next."""
        if now_s < self.next_s or self._interval_s is None:
            return False
        self.next_s = now_s + self._interval_s
        return True


def moved(
    positions: Mapping[TopicPartition, Position], acknowledged: Callable[[TopicPartition], int | None]
) -> Positions:
    """Return the positions that are ahead of what the broker has stored."""
    return {
        partition: position
        for partition, position in positions.items()
        if (stored := acknowledged(partition)) is None or position.next_offset > stored
    }
