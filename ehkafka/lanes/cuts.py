"""Cuts: an assignment that drains or ends loses the records that will not run any more.

Pure; the caller has the lock. What is cut has no outcome: it is abandoned, counted, and handled again by
whoever has the partition next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ehkafka.lanes.assignment import Assignment
    from ehkafka.lanes.dispatcher import Dispatcher
    from ehkafka.lanes.lane import Lane


class Cuts:
    """Cuts the assignments of one dispatcher short."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    def drain(self, assignment: Assignment, *, below_started: bool) -> None:
        """Cut an assignment short before it ends.

        With `below_started`, what lies below the highest started offset still runs: that leaves no hole,
        so the next owner repeats nothing. Without, only what runs now ends. The rest is abandoned.
        """
        express, held = self._dispatcher.express, self._dispatcher.holds.held
        assignment.halted = True  # before the look at who runs: see `Assignment`
        if express is not None:
            express.halt(assignment)
        if below_started:
            heads = (lane.head for lane in assignment.lanes_here() if lane in held)
            # Past a held head all is repeated anyway: start nothing there.
            barrier = min((head.offset() for head in heads if head is not None), default=None)
            highest = assignment.highest_started()
            assignment.drain_limit = highest if barrier is None else min(highest, barrier)
        self._cut_lanes(assignment)
        self._cut_chunks(assignment)

    def end(self, assignment: Assignment) -> int:
        """End an epoch: what has no outcome is abandoned, late results will be stale. Return how many."""
        dispatcher = self._dispatcher
        assignment.halted = assignment.ended = True
        assignment.drain_limit = -1
        del dispatcher.assignments[assignment.partition]
        self._cut_chunks(assignment)
        self._cut_lanes(assignment)
        # What is left are heads that run: nobody waits for them any more.
        running = assignment.backlog_records
        assignment.abandoned_records += running
        dispatcher.backlog_records -= running
        dispatcher.backlog_bytes -= assignment.backlog_bytes
        assignment.backlog_records = assignment.backlog_bytes = 0
        dispatcher.abandoned_records += assignment.abandoned_records
        unopened, assignment.unopened = assignment.unopened, []
        if assignment.shared:
            for lane in unopened:  # what waited behind this partition's records is another partition's
                dispatcher.make_ready(lane)
        else:
            dispatcher.holds.forget(assignment.lanes.values())
            assignment.lanes.clear()
        return assignment.abandoned_records

    def abandon(self, assignment: Assignment, lane: Lane) -> int:
        """Take a lane's records above the drain limit; return how many there were."""
        if not assignment.shared and lane.assignment is not assignment:
            return 0
        taken = assignment.abandon(lane, assignment.drain_limit)
        if taken:
            records, size = len(taken), sum(map(len, taken))
            holds = self._dispatcher.holds
            if lane in holds.held:
                holds.park(assignment, -records, -size, from_backlog=False)
            else:
                for counted in (assignment, self._dispatcher):
                    counted.backlog_records -= records
                    counted.backlog_bytes -= size
        return len(taken)

    def _cut_lanes(self, assignment: Assignment) -> None:
        for lane in list(assignment.lanes.values()):
            if self.abandon(assignment, lane) and not lane.running:
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
