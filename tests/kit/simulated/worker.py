"""A worker of a simulated member: the steps of a worker thread, each of which may come at any time.

What is one call in a thread worker is several steps here wherever another thread can run in between:
popping a lane and marking it as running, the look at `may_run_head` and the call of the handler, the
handler's return and `advance`, and the hand-in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.lanes.chunk import Chunk
from ehkafka.lanes.decision import AwaitHead, HoldHead, RetryHead, SkipHead
from ehkafka.lanes.lane import Lane

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.lanes.assignment import Assignment
    from ehkafka.lanes.decision import Decision
    from ehkafka.testing.clock import Timer
    from tests.kit.simulated.member import SimulatedMember


class SimulatedWorker:
    """Runs one lane after another; sleeps when none is ready."""

    def __init__(self, member: SimulatedMember, name: str) -> None:
        self._member = member
        self._world = member.world
        self.name = name
        self._lane: Lane | None = None
        self._chunk: Chunk | None = None
        self._of_chunk: Lane
        # What became of the chunk's record, once that was drawn.
        self._decision: Decision | None = None
        self._decided = False
        # It has finished, and some other one is deferred: the worker looks under the lock which.
        self._checks = False
        self._assignment: Assignment | None = None
        self._records = 0
        # The next step; None while asleep.
        self._next: Callable[[], float] | None = None
        self._timer: Timer | None = None
        # In the middle of a step: what a worker does under the lock cannot be interrupted by itself.
        self._busy = False

    @property
    def asleep(self) -> bool:
        """Whether it waits for a lane."""
        return self._next is None

    def wake(self) -> None:
        """Look for a lane soon."""
        if self._next is None:
            self._next = self._pop
            self._plan_step(self._world.seam_s())

    def preempt(self, steps: int) -> None:
        """Take the next steps now, in the middle of what another thread does under the lock."""
        if self._busy:
            return
        if self._timer is not None:
            self._timer.cancel()
        if self._next is None:
            self._next = self._pop
        self._go(steps)

    def _step(self) -> None:
        if self._member.is_away(self._step):
            return
        self._go(None)

    def _go(self, steps: int | None) -> None:
        """Take so many steps, or all that take no time."""
        self._busy = True
        delay_s = 0.0
        while self._next is not None:
            delay_s = self._next()
            if steps is None:
                if delay_s > 0.0:
                    break
            elif (steps := steps - 1) == 0:
                break
        self._busy = False
        self._plan_step(delay_s)

    def _plan_step(self, delay_s: float) -> None:
        self._timer = None if self._next is None else self._world.clock.call_after(delay_s, self._step)

    def _then(self, step: Callable[[], float]) -> float:
        self._next = step
        return self._world.seam_s()

    # The steps. Each returns how long it takes until the next.

    def _leaves(self) -> bool:
        """Leave for good if there are too many workers."""
        member = self._member
        if not member.surplus_workers:
            return False
        member.surplus_workers -= 1
        member.workers.remove(self)
        self._next = None
        member.wake_workers()  # its wake-up may have been for what is ready
        return True

    def _pop(self) -> float:
        if self._leaves():
            return 0.0
        if self._member.taken:
            self._lane = self._member.taken.pop()
            self._records = 0
            return self._then(self._check)
        try:
            popped = self._member.dispatcher.ready.popleft()
        except IndexError:
            late = self._member.late
            if late is not None and late.waits:
                return self._then(self._take)
            self._next = None
            return 0.0
        if isinstance(popped, Chunk):
            self._chunk = popped
            return self._then(self._mark_chunk)
        self._lane = popped
        self._records = 0
        return self._then(self._mark)

    def _take(self) -> float:
        if self._world.locked_member is not self._member:  # else the poll thread has the lock: ask again
            self._member.take()
        return self._then(self._pop)

    def _mark(self) -> float:
        self._held.running = True
        return self._then(self._check)

    def _check(self) -> float:
        return self._then(self._call if self._held.may_run_head() else self._hand_in)

    def _call(self) -> float:
        lane = self._held
        assert lane.head is not None
        self._assignment = lane.assignment
        self._member.started(lane, self.name)
        self._next = self._return
        return self._world.handler_s()

    def _return(self) -> float:
        lane = self._held
        assert self._assignment is lane.assignment, "the head's home changed while its handler ran"
        decision = self._world.decide(self._member)
        if decision is None:
            self._member.finished(lane, "finished")
            return self._then(self._advance)
        lane.decision = decision
        if not isinstance(decision, AwaitHead):
            self._member.finished(lane, "skipped" if isinstance(decision, SkipHead) else "failed")
        return self._then(self._hand_in)

    def _advance(self) -> float:
        self._records += 1
        goes_on = self._held.advance() and self._records < self._world.plan.turn_records_max
        return self._then(self._check if goes_on else self._hand_in)

    def _hand_in(self) -> float:
        lane, self._lane, self._assignment = self._held, None, None
        self._member.hand_in(lane)
        return self._then(self._pop)

    # The same with a chunk.

    def _mark_chunk(self) -> float:
        self._begun.running = True
        return self._then(self._next_of_chunk)

    def _next_of_chunk(self) -> float:
        chunk = self._begun
        assert chunk.iterator is not None
        message = next(chunk.iterator, None)
        if message is None:
            return self._then(self._hand_chunk_in)
        # Read anew: the checker must not get what the chunk remembers.
        (key,) = self._member.reader.keys([message])
        # What is reported of it; a lane of its own it gets only if it must.
        self._of_chunk = Lane(key, chunk.assignment, message)
        self._member.started(self._of_chunk, self.name)
        self._decided = False
        self._next = self._return_of_chunk
        return self._world.handler_s()

    def _return_of_chunk(self) -> float:
        if not self._decided:
            self._decided = True
            self._decision = self._world.decide(self._member)
            if self._decision is None:
                self._member.finished(self._of_chunk, "finished")
                self._checks = self._world.checks_deferral()
        if self._decision is None and not self._checks:
            return self._then(self._next_of_chunk)
        if self._world.locked_member is self._member:
            return self._then(self._return_of_chunk)  # waits for the lock
        with self._member.locked() as dispatcher:
            lane = dispatcher.end_early(self._begun)
        assert lane is not None
        assert lane.head is self._of_chunk.head, "a chunk's worker was given another record's lane"
        lane.decision = self._decision
        if lane.decision is None:
            lane.advance()
        elif not isinstance(lane.decision, AwaitHead):
            self._member.finished(lane, "skipped" if isinstance(lane.decision, SkipHead) else "failed")
        self._chunk, self._lane = None, lane
        return self._then(self._hand_in)

    def _hand_chunk_in(self) -> float:
        chunk, self._chunk = self._begun, None
        self._member.moves.note_chunk()
        self._member.hand_in(chunk)
        return self._then(self._pop)

    @property
    def _begun(self) -> Chunk:
        assert self._chunk is not None
        return self._chunk

    @property
    def _held(self) -> Lane:
        assert self._lane is not None
        return self._lane


def draw_decision(rng_random: Callable[[], float], hold: float, skip: float, retry_s: float) -> Decision:
    """Return what a policy says of a failed record."""
    drawn = rng_random()
    if drawn < hold:
        return HoldHead("simulated poison")
    if drawn < hold + skip:
        return SkipHead("simulated refusal")
    return RetryHead(rng_random() * retry_s, "simulated failure")
