"""What is known to be finished above a commit, from one look to the next.

Pure values. What has finished stays so for the rest of its epoch: a commit between two looks says what the
last one found, cut at its own position, and what has ended since.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ehkafka.progress.ranges import Ranges

_end = itemgetter(1)
# More offsets than this are joined in one pass over all ranges, which costs less than a place for each.
FEW = 8


class Known(NamedTuple):
    """Finished ranges, ascending and apart, and the newest leader epoch among their records if known."""

    finished: Ranges = ()
    leader_epoch: int | None = None

    def above(self, offset: int) -> Known:
        """Return what of it lies at or above an offset."""
        below = bisect_right(self.finished, offset, key=_end)
        if not below and (not self.finished or self.finished[0][0] >= offset):
            return self
        above = tuple((max(start, offset), end) for start, end in self.finished[below:])
        return Known(above, self.leader_epoch if above else None)

    def joined(self, ranges: Ranges, leader_epoch: int | None) -> Known:
        """Return it with other finished ranges, and the newest epoch among all."""
        if not self.finished:
            return Known(ranges, leader_epoch if ranges else None)
        joined: list[tuple[int, int]] = []
        for start, end in sorted((*self.finished, *ranges)):
            if joined and start <= joined[-1][1]:
                joined[-1] = joined[-1][0], max(end, joined[-1][1])
            else:
                joined.append((start, end))
        return Known(tuple(joined), leader_epoch)

    def union(self, other: Known) -> Known:
        """Return the ranges of both, with the newest of the epochs that are known."""
        epochs = [one for one in (self.leader_epoch, other.leader_epoch) if one is not None]
        return self.joined(other.finished, max(epochs, default=None))

    def with_ended(self, offsets: list[int], leader_epoch: int | None) -> Known:
        """Return it with offsets in any order that have ended since, and the newest epoch among all."""
        if not offsets:
            return self
        if len(offsets) > FEW:
            return self.joined(tuple(_runs(sorted(set(offsets)))), leader_epoch)
        ranges = list(self.finished)
        for offset in sorted(offsets):
            _put(ranges, offset)
        return Known(tuple(ranges), leader_epoch)


def _runs(offsets: list[int]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of ascending offsets."""
    start = end = offsets[0]
    for offset in offsets:
        if offset != end:
            yield start, end
            start = offset
        end = offset + 1
    yield start, end


def _put(ranges: list[tuple[int, int]], offset: int) -> None:
    # The first range that ends at the offset or behind it.
    first = last = bisect_left(ranges, offset, key=_end)
    start, end = offset, offset + 1
    while last < len(ranges) and ranges[last][0] <= end:
        start, end = min(start, ranges[last][0]), max(end, ranges[last][1])
        last += 1
    ranges[first:last] = [(start, end)]
