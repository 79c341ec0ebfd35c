"""A set of offsets whose memory follows the holes in it, not its size.

Pure and single-threaded. Offsets of a partition arrive nearly in order, so millions of them are a few
ranges: what was added lately waits in a plain set and is folded into the ranges in bulk. A log with
many holes (transaction markers, compaction) costs one range per hole.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

# Folding walks every range; doing it once per this many additions, or per as many as there are ranges,
# keeps the cost of an addition constant.
_RECENT_MIN = 1024


class OffsetSet:
    """Offsets as half-open ranges in ascending order, never touching each other."""

    __slots__ = ("_end", "_ends", "_recent", "_recent_max", "_starts")

    def __init__(self, offsets: Iterable[int] = ()) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        # One past the last range: most additions lie above it and need no search.
        self._end = -1
        self._recent: set[int] = set()
        self._recent_max = _RECENT_MIN
        self.update(offsets)

    def add(self, offset: int) -> bool:
        """Add one offset; return whether it is new."""
        recent = self._recent
        if offset in recent or (offset < self._end and self._in_ranges(offset)):
            return False
        recent.add(offset)
        if len(recent) > self._recent_max:
            self._fold()
        return True

    def update(self, offsets: Iterable[int]) -> None:
        """Add ascending or unordered offsets; a `range` or an ascending sequence without a hole is O(1)."""
        if isinstance(offsets, range):
            if offsets.step == 1:
                self.add_range(offsets.start, offsets.stop)
                return
        elif not isinstance(offsets, (list, tuple)):
            offsets = sorted(offsets)
        if offsets and _has_no_hole(offsets):
            self.add_range(offsets[0], offsets[-1] + 1)
        else:
            for offset in offsets:
                self.add(offset)

    def add_range(self, start: int, end: int) -> None:
        """Add every offset from `start` up to, without, `end`."""
        if start >= end:
            return
        if start > self._end and not self._recent:
            self._append(start, end)
        elif start == self._end and not self._recent:
            self._ends[-1] = self._end = end
        else:
            self._fold([(start, end)])

    def __contains__(self, offset: int) -> bool:
        return offset in self._recent or self._in_ranges(offset)

    def __len__(self) -> int:
        return sum(end - start for start, end in self.ranges())

    def ranges(self) -> list[tuple[int, int]]:
        """Return the half-open ranges, ascending."""
        if self._recent:
            self._fold()
        return list(zip(self._starts, self._ends, strict=True))

    def count_from(self, start: int) -> int:
        """Return how many offsets are `start` or above."""
        return sum(end - max(begin, start) for begin, end in self.ranges() if end > start)

    def missing_in(self, other: OffsetSet) -> Iterator[tuple[int, int]]:
        """Yield the ranges of this set that `other` lacks, ascending."""
        others = other.ranges()
        index = 0
        for start, end in self.ranges():
            position = start
            while index < len(others) and others[index][1] <= position:
                index += 1
            ahead = index
            while position < end and ahead < len(others) and others[ahead][0] < end:
                if others[ahead][0] > position:
                    yield position, others[ahead][0]
                position = max(position, others[ahead][1])
                ahead += 1
            if position < end:
                yield position, end
            index = max(index, ahead - 1)

    def _in_ranges(self, offset: int) -> bool:
        index = bisect_right(self._starts, offset) - 1
        return index >= 0 and offset < self._ends[index]

    def _append(self, start: int, end: int) -> None:
        self._starts.append(start)
        self._ends.append(end)
        self._end = end

    def _fold(self, extra: Sequence[tuple[int, int]] = ()) -> None:
        parts = [*zip(self._starts, self._ends, strict=True), *_runs(sorted(self._recent)), *extra]
        parts.sort()
        self._recent.clear()
        self._starts, self._ends, self._end = [], [], -1
        for start, end in parts:
            if self._ends and start <= self._end:
                self._ends[-1] = self._end = max(self._end, end)
            else:
                self._append(start, end)
        self._recent_max = max(_RECENT_MIN, len(self._starts))


def _has_no_hole(offsets: Sequence[int]) -> bool:
    if offsets[-1] - offsets[0] + 1 != len(offsets):
        return False
    return all(map(int.__eq__, offsets, range(offsets[0], offsets[-1] + 1)))


def _runs(offsets: list[int]) -> Iterator[tuple[int, int]]:
    if not offsets:
        return
    start = previous = offsets[0]
    for offset in offsets:
        if offset > previous + 1:
            yield start, previous + 1
            start = offset
        previous = offset
    yield start, previous + 1
