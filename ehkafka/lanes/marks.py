"""What an assignment remembers of the batches that it received: where they end, when they came, which epoch.

Pure. A record without an outcome keeps every later mark, for however long: so there is a bound, and the marks
that are merged are those that lie close together for their age. What a mark says of when its records came is
a thirtieth of their age too early at most, and what came lately is exact. Of a merged mark only the
last record's timestamp is known, as it was of a batch.
"""

from __future__ import annotations

from bisect import bisect_left
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MARKS_MAX = 1_000
# Marks are merged where that makes their records look older by this share of their age; more where there are
# too many for it.
CLOSE_SHARE = 1 / 32
_last_offset = attrgetter("last_offset")


class Mark(NamedTuple):
    """A batch that was received, or several: what their records have in common."""

    last_offset: int
    # The first of them.
    received_at_s: float
    leader_epoch: int | None
    # Of the last record.
    timestamp_ms: int | None = None
    # When the last of several merged ones came; None: it is one.
    last_received_at_s: float | None = None


class Marks:
    """The marks of one assignment, ascending, `MARKS_MAX` at most."""

    def __init__(self) -> None:
        self._marks: list[Mark] = []

    def __len__(self) -> int:
        return len(self._marks)

    def __iter__(self) -> Iterator[Mark]:
        return iter(self._marks)

    @property
    def first(self) -> Mark | None:
        """The oldest one."""
        return self._marks[0] if self._marks else None

    @property
    def last(self) -> Mark | None:
        """The newest one."""
        return self._marks[-1] if self._marks else None

    def add(self, mark: Mark) -> None:
        """Remember a batch behind all others."""
        self._marks.append(mark)
        if len(self._marks) > MARKS_MAX:
            self._merge(mark.received_at_s)

    def at(self, offset: int) -> Mark | None:
        """Return the mark that an offset belongs to, None when it is no longer known."""
        place = bisect_left(self._marks, offset, key=_last_offset)
        return self._marks[place] if place < len(self._marks) else None

    def take_below(self, offset: int) -> list[Mark]:
        """Forget, and return, the marks wholly below an offset, but for the last one of all."""
        below = min(bisect_left(self._marks, offset, key=_last_offset), len(self._marks) - 1)
        taken = self._marks[: max(0, below)]
        del self._marks[: len(taken)]
        return taken

    def _merge(self, now_s: float) -> None:
        """Halve them, so that it is done seldom."""
        share = CLOSE_SHARE
        while len(self._marks) > MARKS_MAX // 2 and share < 2:
            self._marks = list(_merged(self._marks, now_s, share))
            share *= 2
        if len(self._marks) > MARKS_MAX // 2:
            # As many leader epochs as marks: two by two. A commit behind such a record carries no epoch.
            odd = self._marks[-1:] if len(self._marks) % 2 else []
            self._marks = [*map(_joined, self._marks[0::2], self._marks[1::2]), *odd]


def _merged(marks: Iterable[Mark], now_s: float, share: float) -> Iterator[Mark]:
    """Yield the marks, each with the next ones of its epoch merged into it where they are close enough."""
    kept: Mark | None = None
    for mark in marks:
        if kept is None:
            kept = mark
            continue
        last_s = _last_s(mark)
        is_close = last_s - kept.received_at_s <= (now_s - last_s) * share
        if is_close and mark.leader_epoch == kept.leader_epoch:
            kept = _joined(kept, mark)
        else:
            yield kept
            kept = mark
    if kept is not None:
        yield kept


def _joined(mark: Mark, following: Mark) -> Mark:
    """Return two as one; its leader epoch is not known where theirs differ."""
    epoch = mark.leader_epoch if mark.leader_epoch == following.leader_epoch else None
    last_offset, timestamp_ms = following.last_offset, following.timestamp_ms
    return Mark(last_offset, mark.received_at_s, epoch, timestamp_ms, _last_s(following))


def _last_s(mark: Mark) -> float:
    return mark.received_at_s if mark.last_received_at_s is None else mark.last_received_at_s
