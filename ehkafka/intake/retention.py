"""Whether retention deletes what a partition has not read yet: said before it happens, or when it does. Pure.

Only a question to the broker shows where a log begins, and it is asked where nothing is fetched: that a
paused partition has lost records shows at its next fetch, which may be days later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ehkafka.events.partition import RetentionNear, UnreadDeleted

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.events import Event
    from ehkafka.records import TopicPartition

# An hour is enough to do something.
NEAR_S: Final = 3600.0


@dataclass(slots=True)
class _Moves:
    """How the begin of a log has moved since it was first seen."""

    first_start: int
    first_s: float
    start: int
    number: int = 0
    largest: int = 0
    is_reported: bool = False


class Retention:
    """Remembers how the logs' beginnings move, and reports whose positions they come near or pass."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self._moves: dict[TopicPartition, _Moves] = {}

    def check(
        self, partition: TopicPartition, start: int, position: int | None, at_s: float, deleted_records: int
    ) -> None:
        """Take where a log began at that moment, and how many unread records were before that.

        Of a partition that is not paused the client may hold these: then it is 0. Without a position it is
        read from its begin on.
        """
        moves = self._moves.get(partition)
        if moves is None:
            moves = self._moves[partition] = _Moves(start, at_s, start - 1)
        step, moves.start = start - moves.start, max(start, moves.start)
        if step <= 0 or position is None:
            return
        if start > moves.first_start:
            moves.number, moves.largest = moves.number + 1, max(moves.largest, step)
        left = position - start
        if left < 0:
            if deleted_records:
                self._emit(UnreadDeleted(partition, position, start, deleted_records))
        elif not moves.is_reported and moves.number:
            # Retention deletes a segment at a time: two steps are a speed, one is a size.
            left_s = left * (at_s - moves.first_s) / (start - moves.first_start)
            if left < moves.largest or (moves.number > 1 and left_s < NEAR_S):
                moves.is_reported = True
                self._emit(RetentionNear(partition, position, start, moves.largest, left_s))

    def forget(self, partition: TopicPartition) -> None:
        """Drop a partition that is not ours any more."""
        self._moves.pop(partition, None)
