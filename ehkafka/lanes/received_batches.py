"""The batches that an assignment has received: their last offsets, times and leader epochs.

Pure. An unfinished record keeps all later batches here, for however long. So their number is bounded: batches
that were received close together for their age are merged. A merged batch has the time of its first record,
which is wrong for the others by a thirtieth of their age at most, and the timestamp of its last one.
"""

from __future__ import annotations

from bisect import bisect_left
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

BATCHES_MAX = 1_000
# Batches are merged where that makes their records look older by this share of their age; more where there
# are too many for it.
CLOSE_SHARE = 1 / 32
# At this share nearly all batches merge.
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
    """The batches of one assignment, ascending, `BATCHES_MAX` at most."""

    def __init__(self) -> None:
        self._batches: list[ReceivedBatch] = []

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[ReceivedBatch]:
        return iter(self._batches)

    @property
    def last(self) -> ReceivedBatch | None:
        """The newest one."""
        return self._batches[-1] if self._batches else None

    def add(self, batch: ReceivedBatch) -> None:
        """Remember a batch behind all others."""
        self._batches.append(batch)
        if len(self._batches) > BATCHES_MAX:
            share = CLOSE_SHARE
            while len(self._batches) > BATCHES_MAX // 2 and share < CLOSE_SHARE_MAX:  # halved: rarely done
                self._merge(batch.received_at_s, share)
                share *= 2

    def at(self, offset: int) -> ReceivedBatch | None:
        """Return the batch that an offset belongs to, None when it is no longer known."""
        place = bisect_left(self._batches, offset, key=_last_offset)
        return self._batches[place] if place < len(self._batches) else None

    def take_below(self, offset: int) -> list[ReceivedBatch]:
        """Forget, and return, the batches wholly below an offset, except the last one of all."""
        below = min(bisect_left(self._batches, offset, key=_last_offset), len(self._batches) - 1)
        taken = self._batches[: max(0, below)]
        del self._batches[: len(taken)]
        return taken

    def _merge(self, now_s: float, share: float) -> None:
        """Merge each batch with the next ones of its epoch that are close enough.

        If each batch has an epoch of its own they are merged, too: a commit after such a record has none.
        """
        batches, merged = self._batches, self._batches[:1]
        # The records of a batch came before the next batch.
        times_s = (*(one.received_at_s for one in batches[2:]), now_s)
        for batch, before_s in zip(batches[1:], times_s, strict=True):
            kept = merged[-1]
            is_close = before_s - kept.received_at_s <= (now_s - before_s) * share
            if is_close and (batch.leader_epoch == kept.leader_epoch or share >= 2):
                epoch = kept.leader_epoch if batch.leader_epoch == kept.leader_epoch else None
                merged[-1] = batch._replace(received_at_s=kept.received_at_s, leader_epoch=epoch)
            else:
                merged.append(batch)
        self._batches = merged
