"""Lanes on hold: waiting for a retry, kept by a failure policy, or paused by a command.

Pure; time comes in as an argument; the caller has the lock. A lane on hold is in no other place: not
ready, not with a worker. Its followers wait with it, other keys do not; it takes no worker, and its
records count as parked instead of in the backlog, so it takes no intake credit either.
"""

from __future__ import annotations

import heapq
import itertools
from typing import TYPE_CHECKING, NamedTuple

from ehkafka.lanes.decision import Decision, HoldHead
from ehkafka.records import Outcome

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

    from ehkafka.lanes.assignment import Assignment
    from ehkafka.lanes.dispatcher import Dispatcher
    from ehkafka.lanes.lane import Lane


# Ended waits that may stay in the heap beside as many as there are lanes on hold.
LEFT_OVER_MAX = 100


class Hold(NamedTuple):
    """Why a lane waits, and until when; `due_s` is None where only a command or a revoke ends it."""

    decision: Decision
    due_s: float | None


class Holds:
    """The lanes of one dispatcher that wait, and the commands on keys."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self.held: dict[Lane, Hold] = {}
        self.paused_keys: set[Hashable] = set()
        # (due, tie breaker, lane, hold); an entry whose hold is no longer the lane's is left over.
        self._due: list[tuple[float, int, Lane, Hold]] = []
        self._serial = itertools.count()

    def hold(self, lane: Lane, decision: Decision, due_s: float | None = None) -> None:
        """Keep a lane that nobody holds and that is not ready."""
        self.held[lane] = hold = Hold(decision, due_s)
        for assignment, records, size in lane.tally():
            self.park(assignment, records, size)
        if due_s is not None:
            heapq.heappush(self._due, (due_s, next(self._serial), lane, hold))
            if len(self._due) > 2 * len(self.held) + LEFT_OVER_MAX:
                self._drop_left_over()

    def keep(self, lane: Lane, decision: HoldHead) -> None:
        """Let a lane on hold wait for a reason that no time ends."""
        self.held[lane] = Hold(decision, None)

    def forget(self, lanes: Iterable[Lane]) -> None:
        """Drop lanes whose records were taken away."""
        for lane in lanes:
            if lane in self.held:
                self._let_go(lane)
        if not self.held:
            self._due.clear()

    def next_due_s(self) -> float | None:
        """Return when the next lane's wait is over, None when none waits for a time."""
        due = self._due
        while due and self.held.get(due[0][2]) is not due[0][3]:
            heapq.heappop(due)
        return due[0][0] if due else None

    def _drop_left_over(self) -> None:
        """Forget waits that a command ended: far-off ones would pile up until their time comes."""
        self._due = [entry for entry in self._due if self.held.get(entry[2]) is entry[3]]
        heapq.heapify(self._due)

    def unpark_due(self, now_s: float) -> int:
        """Ready the lanes whose wait is over; return how many."""
        released = 0
        while (due_s := self.next_due_s()) is not None and due_s <= now_s:
            self.release(heapq.heappop(self._due)[2])
            released += 1
        return released

    def park(self, assignment: Assignment, records: int, size: int, *, from_backlog: bool = True) -> None:
        """Count records of held lanes as parked (negative: no longer), out of the backlog or of nothing."""
        for counted in (assignment, self._dispatcher):
            counted.parked_records += records
            counted.parked_bytes += size
            if from_backlog:
                counted.backlog_records -= records
                counted.backlog_bytes -= size

    # Commands on keys. Each acts on the key's lane in every assignment; `key` is a lane's (the record's key
    # bytes by default).

    def pause_key(self, key: Hashable) -> None:
        """Start nothing more of a key; what runs ends first."""
        self.paused_keys.add(key)
        self._dispatcher.dissolve_chunks()
        for lane in self._lanes_of(key):
            self._pull_from_ready(lane)

    def resume_key(self, key: Hashable) -> None:
        """Let a paused key go on."""
        self.paused_keys.discard(key)
        for lane in self._lanes_of(key):
            if lane in self.held and self.held[lane].decision == _PAUSED:
                self.release(lane)

    def retry_key(self, key: Hashable) -> int:
        """Call the handler again for a key's held head, now; return how many lanes that released.

        A key that waits because of a dead letter goes on for good.
        """
        held = [lane for lane in self._lanes_of(key) if lane in self.held]
        for lane in held:
            lane.assignment.after_letter.pop(key, None)
            self.release(lane)
        return len(held)

    def skip_key(self, key: Hashable) -> int:
        """Give a key's held head the outcome *skipped* and go on behind it; return how many were skipped."""
        held = [lane for lane in self._lanes_of(key) if lane in self.held]
        for lane in held:
            self._let_go(lane)
            self._dispatcher.decisions.give(lane, Outcome.SKIPPED)
        return len(held)

    def give_up_head(self, lane: Lane) -> None:
        """Give a held lane's head the outcome *dead-lettered*; the lane stays on hold while it has more."""
        assert lane.head is not None
        self.park(
            lane.assignment, -1, -lane.head_bytes
        )  # back into the backlog, out of which `end_head` takes it
        self._dispatcher.decisions.end_head(lane, Outcome.DEAD_LETTERED)
        if not lane.refill():
            self.release(lane)

    def release(self, lane: Lane) -> None:
        """Let a lane on hold go on."""
        self._let_go(lane)
        self._dispatcher.make_ready(lane)

    def _let_go(self, lane: Lane) -> None:
        del self.held[lane]
        self._dispatcher.decisions.diverting.pop(lane, None)
        for assignment, records, size in lane.tally():
            self.park(assignment, -records, -size)

    def _pull_from_ready(self, lane: Lane) -> None:
        if lane.running or lane in self.held:
            return  # settle puts it on hold, or it is
        for queue in (self._dispatcher.ready, lane.assignment.unopened):
            try:
                queue.remove(lane)
            except ValueError:
                continue  # a worker took it in between: settle puts it on hold
            self.hold(lane, _PAUSED)
            return

    def _lanes_of(self, key: Hashable) -> list[Lane]:
        def find() -> Iterator[Lane]:
            for assignment in self._dispatcher.assignments.values():
                lane = assignment.lanes.get(key)
                if lane is not None:
                    yield lane

        return list(dict.fromkeys(find()))


_PAUSED = HoldHead("the key is paused")
