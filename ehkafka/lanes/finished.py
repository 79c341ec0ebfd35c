"""Ranges of finished records above the commit position, computed from unfinished and restored ones.

Pure. `Extent` is taken under the lock; what follows from it is worked out without.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import chain, pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ehkafka.records import Message

# Half-open, ascending and apart.
_Ranges = tuple[tuple[int, int], ...]


class FinishedBefore:
    """Ranges that an earlier epoch finished above its commit: their records are received, and no more.

    `leader_epoch` is the newest among those records, where known. A record of a newer one cannot be what
    was finished: the log was cut there and written again.
    """

    __slots__ = ("_ends", "_starts", "leader_epoch")

    def __init__(self, ranges: Iterable[tuple[int, int]], leader_epoch: int | None = None) -> None:
        ranges = tuple(ranges)
        self._starts = [start for start, _ in ranges]
        self._ends = [end for _, end in ranges]
        self.leader_epoch = leader_epoch

    def __contains__(self, offset: int) -> bool:
        place = bisect_right(self._starts, offset) - 1
        return place >= 0 and offset < self._ends[place]

    def fresh(self, messages: Sequence[Message]) -> list[int]:
        """Return which of the messages, by their place, still need a result."""
        return [place for place, message in enumerate(messages) if not self._has(message)]

    def is_passed(self, messages: Sequence[Message]) -> bool:
        """Tell whether nothing of this can come behind these messages."""
        return self._ends[-1] <= messages[-1].offset() + 1 or self._is_newer(messages[-1])

    def is_refuted(self, messages: Sequence[Message]) -> bool:
        """Tell whether the log has other records now than those that were finished."""
        return self._is_newer(messages[-1]) and messages[-1].offset() < self._ends[-1]

    def above(self, offset: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges, or their parts, at or above an offset."""
        first = bisect_right(self._ends, offset)
        for start, end in zip(self._starts[first:], self._ends[first:], strict=True):
            yield max(start, offset), end

    def _has(self, message: Message) -> bool:
        return message.offset() in self and not self._is_newer(message)

    def _is_newer(self, message: Message) -> bool:
        epoch = message.leader_epoch()
        return self.leader_epoch is not None and epoch is not None and epoch > self.leader_epoch


class Extent(NamedTuple):
    """An epoch at one moment: how far it has received, and what of that has no result."""

    next_offset: int
    received_next: int
    # Offsets from here on are unknown.
    known_to: int
    # Ascending. What ran while they were gathered may have ended since.
    unfinished: Sequence[Message]
    before: FinishedBefore | None

    def finished(self) -> _Ranges:
        """Return the ranges above `next_offset` that need no handling again, without a gap within a key.

        O(unfinished).
        """
        undone = [message.offset() for message in self.unfinished]
        found = _gaps(undone, self.next_offset, self.known_to)
        if self.before is not None:
            before = list(self.before.above(max(self.received_next, self.next_offset)))
            if found and before and found[-1][1] == before[0][0]:
                before[0] = found.pop()[0], before[0][1]
            found += before
        return tuple(found)

    def below(self, offset: int) -> Extent:
        """Return what it tells of the records below an offset, whatever lies above."""
        next_offset, known_to = min(self.next_offset, offset), min(self.known_to, offset)
        return self._replace(next_offset=next_offset, known_to=known_to)


def _gaps(undone: list[int], begins_at: int, ends_at: int) -> list[tuple[int, int]]:
    """Return what lies between ascending offsets. They may be 50 000."""
    first, last = bisect_left(undone, begins_at), bisect_left(undone, ends_at)
    edges = pairwise(chain((begins_at - 1,), undone[first:last], (ends_at,)))
    return [(before + 1, after) for before, after in edges if after - before > 1]
