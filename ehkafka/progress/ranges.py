"""Finished ranges above a commit: from one look to the next, and as bytes and back.

Pure. What has finished stays so for the rest of its epoch: a commit between two looks has what the last one
found, cut at its own position, and what has ended since (`Known`). The bytes have the form of the ranges, the
leader epoch of what is finished, and the ranges, counted from the commit's next_offset. `metadata` puts them
into the text of a commit. Bytes may be of any origin: reading takes bounded work and raises `ValueError` for
what was not written here.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from ehkafka.progress.ranges_forms import FORMS, LENGTH_MAX, bitmap_of, deflate, inflate, read_varint, varint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

# Half-open ranges of offsets, ascending and apart.
Ranges = tuple[tuple[int, int], ...]

# From here on the shortest form is not looked for.
MANY_RANGES = 50
_BITMAP = 2
# Added to a form's number where its body is compressed.
_DEFLATED = 16
_end = itemgetter(1)
# More offsets than this are joined in one pass over all ranges, which costs less than a place for each.
FEW = 8


class SavedRanges(NamedTuple):
    """Finished ranges in a commit's text, and the newest leader epoch among their records where known.

    Not `is_complete`: there were more, which did not fit or were not looked for.
    """

    finished: Ranges = ()
    leader_epoch: int | None = None
    is_complete: bool = True


class RangesBytes(NamedTuple):
    """The bytes, empty if nothing fits, and how many finished offsets they contain and leave out."""

    body: bytes
    kept_offsets: int
    dropped_offsets: int


def write_ranges(next_offset: int, finished: Ranges, leader_epoch: int | None, bytes_max: int) -> RangesBytes:
    """Return the ranges above a commit of `next_offset` in at most `bytes_max` bytes.

    When not all ranges fit, the lowest are kept, as many offsets as any form has room for.
    """
    total = count_offsets(finished)
    epoch = varint(0 if leader_epoch is None else leader_epoch + 1)
    body_bytes = bytes_max - len(epoch) - 1
    if not finished or body_bytes < 1:
        return RangesBytes(b"", 0, total)
    if len(finished) > MANY_RANGES:
        # A bitmap will do if it fits: to look for the shortest form takes ten times as long.
        bitmap = bitmap_of(next_offset, finished, body_bytes)
        if bitmap is not None:
            return RangesBytes(bytes([_BITMAP]) + epoch + bitmap, total, 0)
    number, body, kept = _best(to_runs(next_offset, finished), body_bytes)
    if not kept:
        return RangesBytes(b"", 0, total)
    return RangesBytes(bytes([number]) + epoch + body, kept, total - kept)


def read_ranges(body: bytes, next_offset: int) -> tuple[Ranges, int | None] | None:
    """Return the ranges above `next_offset` and their newest leader epoch; None for a form of the future.

    Raises `ValueError`.
    """
    if not body:
        raise ValueError("no ranges")
    form = FORMS.get(body[0] & ~_DEFLATED)
    if form is None:
        return None
    leader_epoch, position = read_varint(body, 1)
    packed = body[position:]
    runs = form.read(inflate(packed) if body[0] & _DEFLATED else packed)
    finished = from_runs(next_offset, runs)
    if not finished:
        raise ValueError("the ranges contain no offset")
    return finished, leader_epoch - 1 if leader_epoch else None


def count_offsets(ranges: Ranges) -> int:
    """Return how many offsets lie in ranges."""
    if not ranges:
        return 0
    starts, ends = zip(*ranges, strict=True)
    total: int = sum(ends) - sum(starts)
    return total


def to_runs(next_offset: int, finished: Iterable[tuple[int, int]]) -> list[int]:
    """Return the lengths of what is unfinished and finished by turns, from `next_offset` on."""
    runs: list[int] = []
    position = next_offset
    for start, end in finished:
        runs += (start - position, end - start)
        position = end
    return runs


def from_runs(next_offset: int, runs: Sequence[int]) -> Ranges:
    """Return the ranges. Raises `ValueError` for what are no runs."""
    if len(runs) % 2 or not all(runs[1:]) or next_offset + sum(runs) > LENGTH_MAX:
        raise ValueError("the lengths of the ranges are not valid")
    ranges, position = [], next_offset
    for unfinished, finished in zip(runs[0::2], runs[1::2], strict=True):
        start = position + unfinished
        position = start + finished
        ranges.append((start, position))
    return tuple(ranges)


def _best(runs: list[int], body_bytes: int) -> tuple[int, bytes, int]:
    """Return the form, the body and the finished offsets of the text that says most, then of the shortest."""
    fitting = [one for one in _written(runs, body_bytes) if len(one[1]) <= body_bytes]
    if fitting:
        number, body = min(fitting, key=lambda one: len(one[1]))
        return number, body, sum(runs[1::2])
    return _best_cut(runs, body_bytes)


def _written(runs: list[int], body_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Yield the number of each form with all of the runs in it, plain and compressed."""
    for number, form in FORMS.items():
        # A run takes a bit at least; a bitmap compresses what is so even that there are more of them.
        body = form.write(runs) if number == _BITMAP or len(runs) <= body_bytes * 8 else None
        if body is not None:
            yield number, body
            if len(body) > body_bytes // 2:
                yield number | _DEFLATED, deflate(body)


def _best_cut(runs: list[int], body_bytes: int) -> tuple[int, bytes, int]:
    best = (0, b"", 0)
    for number, form in FORMS.items():
        cut = form.cut(runs[: body_bytes * 8], body_bytes)  # a run takes a bit at least
        kept = sum(cut[1::2])
        if kept > best[2]:
            body = form.write(cut)
            if body is not None and len(body) <= body_bytes:
                best = (number, body, kept)
    return _deflated_cut(runs, body_bytes, best)


def _deflated_cut(runs: list[int], body_bytes: int, best: tuple[int, bytes, int]) -> tuple[int, bytes, int]:
    """Return `best`, or a compressed bitmap of more: how many runs fit into one can only be tried."""
    tried = runs[: body_bytes * 64]
    for share in (0.9, 0.7):
        body = FORMS[_BITMAP].write(tried)
        if body is None:
            return best
        body = deflate(body)
        if len(body) <= body_bytes:
            return max(best, (_BITMAP | _DEFLATED, body, sum(tried[1::2])), key=lambda one: one[2])
        tried = tried[: int(len(tried) * share * body_bytes / len(body)) // 2 * 2]
        if sum(tried[1::2]) <= best[2]:
            return best
    return best


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
