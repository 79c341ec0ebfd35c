"""Makes the positions of transactions: their texts never contain less than the group's commits.

On the poll thread. Without transactions a commit may contain less than the one before: records are handled
again. Here their outputs would be sent again. A position may also have to shrink: its transaction was
aborted, because an output of one of its records is refused and waits for a decision.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from ehkafka.progress.metadata import NOTHING_KNOWN, Unusable, decode, encode
from ehkafka.progress.ranges import Known
from ehkafka.progress.saving import ProgressSaver

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.events import Event
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.progress.ledger import Position
    from ehkafka.progress.metadata import LogFacts, MetadataText
    from ehkafka.progress.ranges import Ranges
    from ehkafka.progress.saving import Sample
    from ehkafka.records import TopicPartition


class TransactionSaver(ProgressSaver):
    """Turns epochs into positions of transactions."""

    def __init__(
        self,
        bytes_max: int,
        emit: Callable[[Event], None] | None,
        clock: Callable[[], float],
        committed: Callable[[TopicPartition], Position | None],
    ) -> None:
        """`committed` returns the group's commit of a partition in its present epoch."""
        super().__init__(bytes_max, emit, clock)
        self._committed = committed
        # Commits whose ranges belong to a log that was cut and written again: the ranges are ignored.
        self._refuted: dict[TopicPartition, Position | None] = {}

    def position(self, sample: Sample) -> Position:
        """Return the position to commit; the committed one if the new text would contain less."""
        partition = sample.epoch.partition
        committed = self._committed(partition)
        if sample.epoch.received.is_refuted:
            self._refuted[partition] = committed
        position = super().position(sample)
        if committed is None or committed.epoch != position.epoch:
            return position
        kept = self._committed_ranges(partition, position.next_offset)
        return position if says(position, kept) else committed

    def forget(self, partition: TopicPartition, epoch: int) -> None:
        """Drop all about an epoch that has ended."""
        super().forget(partition, epoch)
        self._refuted.pop(partition, None)

    def _committed_ranges(self, partition: TopicPartition, next_offset: int) -> Ranges:
        """Return the ranges that are committed at or above an offset."""
        committed = self._committed(partition)
        if committed is None or committed is self._refuted.get(partition):
            return ()
        return ranges_above(committed, next_offset)

    def _trims_to(self, epoch: Epoch, next_offset: int) -> int:
        """Return the offset below which no position is taken back any more: the committed one."""
        committed = self._committed(epoch.partition)
        return min(next_offset, committed.next_offset if committed else 0)

    def _bound_by(self, epoch: Epoch, lowest: int) -> None:
        """Forget finished records above a refused output, except committed ones: the abort took them back."""
        place = epoch.partition, epoch.number
        known, kept = self._known.get(place, Known()), self._committed_ranges(epoch.partition, 0)
        below = tuple((start, min(end, lowest)) for start, end in known.finished if start < lowest)
        self._known[place] = Known(below, known.leader_epoch).joined(kept, known.leader_epoch)
        self._last.pop(place, None)

    def _text(
        self, epoch: Epoch, next_offset: int, facts: LogFacts, known: Known, *, is_complete: bool
    ) -> MetadataText:
        """Return the text: all committed ranges, and as many of the lowest others as fit."""
        written = super()._text(epoch, next_offset, facts, known, is_complete=is_complete)
        kept = self._committed_ranges(epoch.partition, next_offset)
        if not (kept and written.dropped_offsets):
            return written
        finished, leader_epoch = known

        def fitting(ranges: int, its: LogFacts) -> MetadataText | None:
            wanted, _ = Known(kept, leader_epoch).joined(finished[:ranges], leader_epoch)
            found = encode(next_offset, its, wanted, leader_epoch, self.bytes_max, is_complete=False)
            return None if found.dropped_offsets else found

        for its in (facts, NOTHING_KNOWN):
            if (least := fitting(0, its)) is not None:
                # The first number of further ranges that does not fit.
                beyond = bisect_left(range(1, len(finished) + 1), 1, key=lambda n: fitting(n, its) is None)
                return fitting(beyond, its) or least
        return written


def ranges_above(position: Position, next_offset: int) -> Ranges:
    """Return the ranges in a position's text, at or above an offset."""
    kept = decode(position.metadata or "", position.next_offset)
    return () if isinstance(kept, Unusable) else Known(kept.ranges.finished).above(next_offset).finished


def says(position: Position, ranges: Ranges) -> bool:
    """Tell whether a position's text contains all of these ranges."""
    kept = ranges_above(position, position.next_offset)
    return Known(kept).joined(ranges, None).finished == kept
