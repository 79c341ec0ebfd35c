"""Tells which records a commit covers: those below its next_offset and in the ranges of its text. Pure.

A finished record that did not fit into the text is not covered: after a crash it is handled again.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import lt
from typing import TYPE_CHECKING, Any

from ehkafka.lanes.inbox import EPOCH, MESSAGE
from ehkafka.outputs.output import PARTS, SOURCE
from ehkafka.progress.metadata import Unusable, decode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.lanes.epoch import Epoch
    from ehkafka.progress.ledger import Position
    from ehkafka.records import TopicPartition


class Cover:
    """The records that one partition's commit covers."""

    __slots__ = ("_ends", "_starts", "next_offset")

    def __init__(self, next_offset: int, ranges: tuple[tuple[int, int], ...] = ()) -> None:
        """`ranges` are pairs of a first offset and the offset behind the last one, in order."""
        self.next_offset = next_offset
        self._starts = [start for start, _ in ranges]
        self._ends = [end for _, end in ranges]

    def has(self, offset: int) -> bool:
        """Tell whether a record is covered."""
        if offset < self.next_offset:
            return True
        place = bisect_right(self._starts, offset) - 1
        return place >= 0 and offset < self._ends[place]


class Coverage:
    """The records that a commit of several partitions covers, each in one epoch."""

    def __init__(self, positions: Mapping[TopicPartition, Position]) -> None:
        self._covers = {
            (partition, position.epoch): cover_of(position) for partition, position in positions.items()
        }

    def of(self, epoch: Epoch) -> Cover | None:
        """Return the cover of an epoch; None if the commit has no position of it."""
        return self._covers.get((epoch.partition, epoch.number))

    def has_any(self, over: Mapping[TopicPartition, int]) -> bool:
        """Tell whether a position is of an epoch with such a number, or of an earlier one."""
        return any(number <= over.get(partition, -1) for partition, number in self._covers)

    def divide(self, flat: list[Any]) -> tuple[list[Any], list[Any]]:
        """Return the outputs whose records are covered, and the others, both flat and in their order."""
        sources = flat[SOURCE::PARTS]
        epochs = [source[EPOCH] for source in sources]
        offsets = [source[MESSAGE].offset() for source in sources]
        covers = {epoch: self.of(epoch) for epoch in set(epochs)}
        below = {epoch: -1 if cover is None else cover.next_offset for epoch, cover in covers.items()}
        inside = list(map(lt, offsets, map(below.__getitem__, epochs)))
        if all(inside):
            return flat, []
        start = inside.index(False) * PARTS
        taken = flat[:start]
        rest: list[Any] = []
        for place in range(start // PARTS, len(sources)):
            cover = covers[epochs[place]]
            is_inside = inside[place] or (cover is not None and cover.has(offsets[place]))
            (taken if is_inside else rest).extend(flat[place * PARTS : (place + 1) * PARTS])
        return taken, rest


def cover_of(position: Position) -> Cover:
    """Return the cover of a position: by its text, not by all that is finished."""
    said = decode(position.metadata or "", position.next_offset)
    if isinstance(said, Unusable):
        return Cover(position.next_offset)
    return Cover(position.next_offset, said.ranges.finished)
