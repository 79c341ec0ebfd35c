"""What the snapshot says of records that have ended while their outputs are on their way.

Such a record holds its partition's commit back as one without an outcome does, so it counts as unfinished.
Reads; the caller has the route's lock, and the book's is taken within.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterator

    from ehkafka.intake.context import OutputsUnderWay
    from ehkafka.intake.route import Route
    from ehkafka.lanes.assignment import Assignment
    from ehkafka.lanes.lane import Lane

SENDING = {"state": "its outputs are not acknowledged", "status": "sending"}


class WaitingOutputs:
    """The records of one assignment whose outputs wait: how many have ended, and the lowest offset of all."""

    __slots__ = ("_assignment", "_offsets", "_outputs", "ended_records")

    def __init__(
        self, outputs: OutputsUnderWay | None, assignment: Assignment, begun: Collection[Lane]
    ) -> None:
        """`begun` are the lanes of the assignment whose heads were with a worker."""
        self._outputs = outputs
        self._assignment = assignment
        self._offsets = () if outputs is None else outputs.waiting(assignment)
        self.ended_records = 0
        if self._offsets:
            # Those without an outcome are in the backlog already.
            self.ended_records = len(self._offsets - {*_begun(assignment, begun)})

    def __contains__(self, offset: int) -> bool:
        return offset in self._offsets

    def lowest(self, offset: int) -> int:
        """Return the lowest offset that waits, or `offset` if that is lower."""
        return min(offset, *self._offsets) if self._offsets else offset

    def oldest(self, route: Route, offset: int, now_s: float) -> tuple[dict[str, Any], Hashable]:
        """Return what the picture of the record at an offset that waits is made of, and its key."""
        mark = self._assignment.mark_at(offset)
        assert self._outputs is not None
        picture: dict[str, Any] = {
            "offset": offset,
            "age_s": max(0.0, now_s - mark.received_at_s) if mark else 0.0,
            "attempts": 0,
            "handler": route.handler,
            "lane_records": 0,
            **SENDING,
        }
        return picture, self._outputs.key_of(self._assignment, offset)


def _begun(assignment: Assignment, lanes: Collection[Lane]) -> Iterator[int]:
    """Yield the offsets of records that were started and have no outcome yet, as far as is known."""
    for lane in lanes:
        if lane.head is not None and lane.assignment is assignment:
            yield lane.head.offset()
        for one in islice(lane.rest or (), max(0, lane.running - 1)):
            home, message = one if assignment.shared else (assignment, one)
            if home is assignment:
                yield message.offset()
    for chunk in assignment.all_chunks():
        # Those that have ended count as backlog until the whole chunk is handed in.
        yield from (message.offset() for message in islice(chunk.messages, chunk.started()))
