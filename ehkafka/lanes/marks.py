"""What an assignment remembers of the batches that it received: where they end, when they came, which epoch.

Pure. A record without an outcome keeps every later mark, for however long: so there is a bound, and the marks
that are merged are those that lie close together for their age. What a mark says of when its records came is
a thirtieth of their age too early at most, and recent records are exact. Of a merged mark only the
last record's timestamp is known, as it was of a batch.
"""

from __future__ import annotations

from bisect import bisect_left
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

MARKS_MAX = 1_000
# Marks are merged where that makes their records look older by this share of their age; more where there are
# too many for it.
CLOSE_SHARE = 1 / 32
# At this share nearly all marks merge.
CLOSE_SHARE_MAX = 1 << 30
_last_offset = attrgetter("last_offset")


class ReceivedBatch(NamedTuple):
    """A batch that was received, or several: what their records have in common."""

    last_offset: int
    # The first of them.
    received_at_s: float
    # None where it is not known, or theirs differ.
    leader_epoch: int | None
    # Of the last record.
    timestamp_ms: int | None = None


class ReceivedBatches:
    """The marks of one assignment, ascending, `MARKS_MAX` at most."""

    def __init__(self) -> None:
        self._marks: list[ReceivedBatch] = []

    def __len__(self) -> int:
        return len(self._marks)

    def __iter__(self) -> Iterator[ReceivedBatch]:
        return iter(self._marks)

    @property
    def last(self) -> ReceivedBatch | None:
        """The newest one."""
        return self._marks[-1] if self._marks else None

    def add(self, mark: ReceivedBatch) -> None:
        """Remember a batch behind all others."""
        self._marks.append(mark)
        if len(self._marks) > MARKS_MAX:
            share = CLOSE_SHARE
            while len(self._marks) > MARKS_MAX // 2 and share < CLOSE_SHARE_MAX:  # halved: it is done seldom
                self._merge(mark.received_at_s, share)
                share *= 2

    def at(self, offset: int) -> ReceivedBatch | None:
        """Return the mark that an offset belongs to, None when it is no longer known."""
        place = bisect_left(self._marks, offset, key=_last_offset)
        return self._marks[place] if place < len(self._marks) else None

    def take_below(self, offset: int) -> list[ReceivedBatch]:
        """Forget, and return, the marks wholly below an offset, but for the last one of all."""
        below = min(bisect_left(self._marks, offset, key=_last_offset), len(self._marks) - 1)
        taken = self._marks[: max(0, below)]
        del self._marks[: len(taken)]
        return taken

    def _merge(self, now_s: float, share: float) -> None:
        """Merge each mark with the next ones of its epoch that are close enough.

        Where there are as many epochs as marks they are merged, too: a commit behind such a record has none.
        """
        marks, merged = self._marks, self._marks[:1]
        # The records of a mark came before the next mark did.
        for mark, before_s in zip(marks[1:], (*(one.received_at_s for one in marks[2:]), now_s), strict=True):
            kept = merged[-1]
            is_close = before_s - kept.received_at_s <= (now_s - before_s) * share
            if is_close and (mark.leader_epoch == kept.leader_epoch or share >= 2):
                epoch = kept.leader_epoch if mark.leader_epoch == kept.leader_epoch else None
                merged[-1] = mark._replace(received_at_s=kept.received_at_s, leader_epoch=epoch)
            else:
                merged.append(mark)
        self._marks = merged
