"""Lanes on hold: waiting for a retry, kept by a failure policy, or paused by a command.

Pure; time comes in as an argument; the caller has the lock. A lane on hold is in no other place: not
ready, not with a worker. Its followers wait with it, other keys do not; it takes no worker, and its
records count as parked instead of in the backlog, so it takes no intake credit either.
"""

from __future__ import annotations

import heapq
import itertools
from typing import TYPE_CHECKING, NamedTuple

from ehkafka.lanes.chunk import Chunk
from ehkafka.lanes.decision import Decision, HoldHead
from ehkafka.records import Outcome

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

    from ehkafka.lanes.assignment import Assignment
    from ehkafka.lanes.dispatcher import Dispatcher
    from ehkafka.lanes.lane import Lane


# Ended waits that may stay in the heap beside as many as there are lanes on hold.
LEFT_OVER_MAX = 100


# Why a lane waits that somebody has paused.
PAUSED = HoldHead("the key is paused")


class _EveryKey:
    """Equal to no key of a record."""


EVERY_KEY: Hashable = _EveryKey()


class Hold(NamedTuple):
    """Why a lane waits, and until when; `due_s` is None where only a command or a revoke ends it."""

    decision: Decision
    due_s: float | None


class Holds:
    """The lanes of one dispatcher that wait, and the commands on keys."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self.held: dict[Lane, Hold] = {}
        # By key where it is paused: the assignments, or None for all, those to come included. A pause of one
        # ends with it; `EVERY_KEY` stands for whatever the handler has.
        self.paused_keys: dict[Hashable, set[Assignment] | None] = {}
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

    def earliest_due_s(self) -> float | None:
        """Return the same and change nothing. Caller has the lock."""
        return min((due for due, _, lane, hold in self._due if self.held.get(lane) is hold), default=None)

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

    # Commands on keys, as lanes have them (the record's key bytes by default): in one assignment, or in all.

    def is_paused(self, lane: Lane) -> bool:
        """Tell whether nothing of a lane may start."""
        paused = self.paused_keys
        if not paused:
            return False
        where = paused.get(lane.key, ())
        return where is None or lane.assignment in where or EVERY_KEY in paused

    def pause_key(self, key: Hashable, assignment: Assignment | None = None) -> bool:
        """Start nothing more of a key; what runs ends first. False where it was paused already."""
        where = self.paused_keys.get(key, set())
        if where is None or assignment in where:
            return False
        self.paused_keys[key] = None if assignment is None else {*where, assignment}
        self._dispatcher.dissolve_chunks()
        for lane in self._lanes_of(key, assignment):
            self._pull_from_ready(lane)
        return True

    def resume_key(self, key: Hashable, assignment: Assignment | None = None) -> bool:
        """Let a paused key go on. False where it was not paused."""
        where = self.paused_keys.get(key, set())
        if key not in self.paused_keys or (assignment is not None and assignment not in (where or ())):
            return False
        self._unpause(key, assignment)
        self._release_paused(self._lanes_of(key, assignment))
        return True

    @property
    def is_all_paused(self) -> bool:
        """Nothing starts, whatever its key."""
        return EVERY_KEY in self.paused_keys

    def pause_all(self) -> bool:
        """Start nothing more, whatever its key. False where that was so already."""
        if EVERY_KEY in self.paused_keys:
            return False
        self.paused_keys[EVERY_KEY] = None
        self._dispatcher.dissolve_chunks()
        # A worker may take some of them meanwhile: settle puts those on hold.
        while self._dispatcher.ready:
            try:
                lane = self._dispatcher.ready.popleft()
            except IndexError:  # a worker took the last one
                break
            # A chunk was ended before it had begun, and nothing is left of it; nor of a lane that was cut.
            if not isinstance(lane, Chunk):
                self._dispatcher.make_ready(lane)
        for assignment in self._dispatcher.assignments.values():
            unopened, assignment.unopened = assignment.unopened, []
            for lane in unopened:
                self._dispatcher.make_ready(lane)
        return True

    def resume_all(self) -> bool:
        """End what `pause_all` began; keys that are paused by themselves stay so. False without it."""
        if EVERY_KEY not in self.paused_keys:
            return False
        del self.paused_keys[EVERY_KEY]
        self._release_paused(list(self.held))
        return True

    def forget_pauses(self, assignment: Assignment) -> None:
        """Drop what was paused in an assignment that has ended."""
        for key, where in list(self.paused_keys.items()):
            if where is not None and assignment in where:
                self._unpause(key, assignment)

    def forget_keys(self) -> None:
        """Drop all that was paused but the handler itself: none of its partitions is left."""
        for key in self.paused_keys.keys() - {EVERY_KEY}:
            del self.paused_keys[key]

    def retry_key(self, key: Hashable, assignment: Assignment | None = None) -> int:
        """Call the handler again for a key's held head, now; return how many lanes that released.

        A key that waits because of a dead letter goes on for good.
        """
        held = [lane for lane in self._lanes_of(key, assignment) if lane in self.held]
        for lane in held:
            lane.assignment.after_letter.pop(key, None)
            self.release(lane)
        return len(held)

    def skip_key(self, key: Hashable, assignment: Assignment | None = None, records: int = 1) -> int:
        """Give a key's held head the outcome *skipped* and go on behind it; return how many lanes had one.

        With `records` as many of each lane, as far as it has them.
        """
        held = [lane for lane in self._lanes_of(key, assignment) if lane in self.held]
        for lane in held:
            self._let_go(lane)
            self._dispatcher.decisions.end_head(lane, Outcome.SKIPPED)
            # Before the lane is ready again: a worker may take it without the lock.
            for _ in range(records - 1):
                if not lane.refill():
                    break
                self._dispatcher.decisions.end_head(lane, Outcome.SKIPPED)
            self._dispatcher.make_ready(lane)
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
        self._dispatcher.decisions.forget_letter(lane)
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
            self.hold(lane, PAUSED)
            return

    def _unpause(self, key: Hashable, assignment: Assignment | None) -> None:
        left = (self.paused_keys.pop(key) or set()) - {assignment}
        if left and assignment is not None:
            self.paused_keys[key] = left

    def _release_paused(self, lanes: Iterable[Lane]) -> None:
        for lane in lanes:
            if lane in self.held and self.held[lane].decision == PAUSED and not self.is_paused(lane):
                self.release(lane)

    def _lanes_of(self, key: Hashable, only: Assignment | None = None) -> list[Lane]:
        def find() -> Iterator[Lane]:
            for assignment in self._dispatcher.assignments.values() if only is None else (only,):
                lane = assignment.lanes.get(key)
                if lane is not None:
                    yield lane

        return list(dict.fromkeys(find()))
