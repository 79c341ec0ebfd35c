"""A consumer of a simulated member: the steps of a thread or a task, each of which may come at any time.

It plays the protocol of `lanes.inbox`. What is one line in a driver is a step here wherever another thread
can run in between: showing a record, removing it, the call, the look at a new queue, and going to sleep.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from ehkafka.lanes.decision import AwaitHead, HoldHead, RetryHead, SkipHead

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.lanes.decision import Decision
    from ehkafka.lanes.inbox import Entry, Inbox
    from tests.kit.clock import Timer
    from tests.kit.simulated.member import SimulatedMember

# Until a step that needs the lock is tried again, by a worker that runs while another thread has it.
LOCKED_S = 1e-6


class SimulatedWorker:
    """Runs what comes into its inbox; sleeps while nothing does."""

    def __init__(self, member: SimulatedMember, inbox: Inbox) -> None:
        self._member = member
        self._world = member.world
        self._hub = member.hub
        self.inbox = inbox
        self.name = f"{member.name}/{inbox.number}"
        self._q = inbox.q
        self._entry: Entry | None = None
        # The next step; None while asleep.
        self._next: Callable[[], float] | None = None
        self._timer: Timer | None = None
        # In the middle of a step: what a worker does under the lock cannot be interrupted by itself.
        self._busy = False
        self._start()

    def _start(self) -> None:
        self._then(self._wait)
        self._plan_step(self._world.seam_s())

    def open_gate(self) -> None:
        """Wake it if it sleeps; one that is about to sleep looks again."""
        if self.inbox.asleep:
            self.inbox.asleep = False
            if self._next is None:
                self._start()

    def preempt(self, steps: int) -> None:
        """Take the next steps now, in the middle of what another thread does under the lock."""
        if self._busy or self._next is None:
            return
        if self._timer is not None:
            self._timer.cancel()
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

    def _locked(self, step: Callable[[], float], again: Callable[[], float]) -> float:
        """Take a step that waits for the lock."""
        if not self._member.is_locked:
            return step()
        self._next = again
        return LOCKED_S

    # The steps. Each returns how long it takes until the next.

    def _show(self) -> float:
        try:
            self.inbox.head = self._q[0]
        except IndexError:
            return self._find_another_queue()
        return self._then(self._remove)

    def _remove(self) -> float:
        try:
            self._entry = self._q.popleft()
        except IndexError:
            return self._find_another_queue()
        return self._then(self._call)

    def _find_another_queue(self) -> float:
        if self.inbox.q is not self._q:
            self._q = self.inbox.q
            return self._then(self._show)
        self.inbox.head = None
        return self._then(self._rest)

    def _rest(self) -> float:
        if self.inbox.leaves:
            return self._locked(self._leave, self._rest)
        self._hub.note_idle(self.inbox)
        self.inbox.asleep = True
        return self._then(self._sleep)

    def _leave(self) -> float:
        if not self._hub.leave(self.inbox):
            return self._then(self._show)
        self._member.workers.remove(self)
        self._next = None
        return 0.0

    def _sleep(self) -> float:
        if self.inbox.q or self.inbox.leaves or not self.inbox.asleep:
            self.inbox.asleep = False
            return self._then(self._show)
        self._next = None
        return 0.0

    def _call(self) -> float:
        self._member.started(self._has, self.name)
        self._next = self._return
        return self._world.handler_s()

    def _return(self) -> float:
        decision = self._world.decide(self._member)
        if decision is None:
            self._member.finished(self._has, "finished")
            return self._then(self._show)
        if not isinstance(decision, AwaitHead):
            self._member.finished(self._has, "skipped" if isinstance(decision, SkipHead) else "failed")
        self._hub.fail(self.inbox, self._has, decision)
        return self._then(self._wait)

    def _wait(self) -> float:
        """Wait until the dispatcher has taken over what failed."""
        if not self.inbox.frozen:
            return self._then(self._show)
        self.inbox.asleep = True
        return self._then(self._wait_on)

    def _wait_on(self) -> float:
        if self.inbox.frozen and self.inbox.asleep:
            self._next = None
            return 0.0
        self.inbox.asleep = False
        return self._then(self._wait)

    @property
    def _has(self) -> Entry:
        assert self._entry is not None
        return self._entry


def draw_decision(rng_random: Callable[[], float], hold: float, skip: float, retry_s: float) -> Decision:
    """Return what a policy says of a failed record."""
    drawn = rng_random()
    if drawn < hold:
        return HoldHead("simulated poison")
    if drawn < hold + skip:
        return SkipHead("simulated refusal")
    return RetryHead(rng_random() * retry_s, "simulated failure")


def watched_queue(seam: Callable[[], object]) -> type[deque[Any]]:
    """Return a queue in whose steps under the lock other threads may run."""

    class Queue(deque[Any]):
        def pop(self, *arguments: Any) -> Any:
            seam()
            return super().pop(*arguments)

        def append(self, entry: Any) -> None:
            seam()
            super().append(entry)
            seam()

        def __len__(self) -> int:
            seam()
            return super().__len__()

    return Queue


class InOrder(dict[Any, None]):
    """A set in the order in which its members came: a seed must give the same run at any addresses."""

    def add(self, one: Any) -> None:
        """Add a member."""
        self[one] = None

    def update(self, ones: Any) -> None:  # type: ignore[override]
        """Add members."""
        for one in ones:
            self[one] = None

    def discard(self, one: Any) -> None:
        """Take a member out, if it is one."""
        super().pop(one, None)

    def remove(self, one: Any) -> None:
        """Take a member out."""
        del self[one]

    def pop(self) -> Any:  # type: ignore[override]
        """Take the last member out."""
        return self.popitem()[0]
