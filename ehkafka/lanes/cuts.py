"""Cuts: an assignment that drains or ends loses the records that will not run any more.

Pure; the caller has the lock. What is cut has no outcome: it is returned, counted, and handled again by
whoever has the partition next. Only the end of an epoch takes lanes on hold: while a drain goes on, what
waits behind a failed record still waits for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ehkafka.headers.size import sizes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ehkafka.lanes.assignment import Assignment
    from ehkafka.lanes.dispatcher import Dispatcher
    from ehkafka.lanes.lane import Lane


class Work(NamedTuple):
    """What a drain still has to finish. Records of one lane run one after another, whoever runs them."""

    records: int
    longest_lane_records: int

    def needs_s(self, mean_s: float, workers: int) -> float:
        """Return how long it takes so many workers, at a mean time for each record."""
        return mean_s * max(self.records / workers, self.longest_lane_records)


class Cuts:
    """Cuts the assignments of one dispatcher short."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    def drain(self, assignments: Sequence[Assignment], fits: Callable[[Work], bool] | None) -> bool:
        """Cut assignments short before they end; tell whether more than what runs now still runs.

        What lies below the highest started offset of each does, if `fits` says that there is time for it:
        that leaves no hole, so the next owner repeats nothing. Else, and without `fits`, only what runs now
        ends. The rest is returned. To be asked again while a drain goes on: records fail, and time passes.
        """
        express = self._dispatcher.express
        fresh = [assignment for assignment in assignments if not assignment.halted]
        for assignment in fresh:
            assignment.halted = True  # before the look at who runs: see `Assignment`
            if express is not None:
                express.halt(assignment)
            if fits is not None:
                assignment.drain_limit = assignment.highest_started(self._dispatcher.decisions.diverting)
        # All limits before any cut: a lane that one partition's cut readies may go on with another's record.
        for assignment in assignments:
            assignment.drain_limit = -1 if fits is None else self._limit(assignment)
        for assignment in assignments:
            self._cut_lanes(assignment)
            self._cut_chunks(assignment)
        if fits is None:
            return False
        # For the whole handler, whose partitions share its workers: all of them or none, so that a drain with
        # too much left takes no longer than what runs.
        return fits(self._work(assignments)) or self.drain(assignments, None)

    def _limit(self, assignment: Assignment) -> int:
        """Return the drain's limit, or the head below it that waits: past that there is a hole anyway."""
        waits = self._dispatcher.waits
        heads = (lane.head for lane in assignment.lanes_here() if waits(lane))
        return min([assignment.drain_limit, *(head.offset() for head in heads if head is not None)])

    def _work(self, assignments: Sequence[Assignment]) -> Work:
        waits = self._dispatcher.waits
        records = longest = 0
        for assignment in assignments:
            for lane in assignment.lanes.values():
                if not waits(lane) and (here := assignment.records_in(lane)):
                    records += here
                    longest = max(longest, len(lane))
        return Work(records, longest)

    def end(self, assignment: Assignment) -> int:
        """End an epoch: what has no outcome is returned, late results will be stale. Return how many."""
        dispatcher = self._dispatcher
        assignment.halted = assignment.ended = True
        assignment.drain_limit = -1
        del dispatcher.assignments[assignment.partition]
        self._cut_chunks(assignment)
        self._cut_lanes(assignment, held_too=True)
        # What is left are heads that run: nobody waits for them any more.
        running = assignment.backlog_records
        assignment.returned_records += running
        assignment.returned_bytes += assignment.backlog_bytes
        dispatcher.backlog_records -= running
        dispatcher.backlog_bytes -= assignment.backlog_bytes
        assignment.backlog_records = assignment.backlog_bytes = 0
        dispatcher.returned_records += assignment.returned_records
        dispatcher.returned_bytes += assignment.returned_bytes
        dispatcher.holds.forget_pauses(assignment)
        unopened, assignment.unopened = assignment.unopened, []
        if assignment.shared:
            for lane in unopened:  # what waited behind this partition's records is another partition's
                dispatcher.make_ready(lane)
        else:
            dispatcher.holds.forget(assignment.lanes.values())
            assignment.lanes.clear()
        return assignment.returned_records

    def return_lane(self, assignment: Assignment, lane: Lane) -> int:
        """Take a lane's records above the drain limit; return how many there were."""
        if not assignment.shared and lane.assignment is not assignment:
            return 0
        taken = assignment.return_lane(lane, assignment.drain_limit)
        if taken:
            records, size = len(taken), sum(sizes_of(taken))
            holds = self._dispatcher.holds
            if lane in holds.held:
                holds.park(assignment, -records, -size, from_backlog=False)
            else:
                for counted in (assignment, self._dispatcher):
                    counted.backlog_records -= records
                    counted.backlog_bytes -= size
        return len(taken)

    def _cut_lanes(self, assignment: Assignment, *, held_too: bool = False) -> None:
        held = self._dispatcher.holds.held
        for lane in list(assignment.lanes.values()):
            if not held_too and (lane in held or _waits_ready(assignment, lane)):
                continue
            if self.return_lane(assignment, lane) and not lane.running:
                self._after_cut(lane)

    def _cut_chunks(self, assignment: Assignment) -> None:
        express = self._dispatcher.express
        if express is not None:
            express.cut(assignment, assignment.drain_limit)
            express.go_on()

    def _after_cut(self, lane: Lane) -> None:
        """Put a lane that lost records where it belongs now. It may still stand in `ready`: see `begin`."""
        dispatcher = self._dispatcher
        held = lane in dispatcher.holds.held
        if lane.head is None:
            dispatcher.holds.forget([lane])
            if lane.refill():  # shared: the next record is another partition's
                if held:
                    dispatcher.make_ready(lane)
            else:
                dispatcher.free(lane)


def _waits_ready(assignment: Assignment, lane: Lane) -> bool:
    """Tell whether a lane is ready for its failed head's next attempt, with other partitions' records behind.

    Those may not pass it before its epoch has ended. Whoever takes the lane finds that the head may not
    start, and it goes on hold: see `Dispatcher.make_ready`.
    """
    is_failed_head = lane.assignment is assignment and lane.attempts > 0 and not lane.running
    return assignment.shared and is_failed_head and not assignment.may_start(lane.head)
