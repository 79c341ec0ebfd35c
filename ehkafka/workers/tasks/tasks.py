"""The tasks of one handler on an event loop, each the consumer of one inbox: see the protocol of `inbox`.

A record costs no task, lock or report: a task shows it, removes it, awaits the call and goes on to the next.
Where its inbox is empty it rests on the inbox's gate, a future: it publishes that it sleeps and looks again,
so that it sees itself what came in between. A task begins with the first record of its inbox, so an idle
handler has none; `rounds` lets them begin a few at a time, and the loop have its turn. All but `wake` and
what is marked runs on the loop's thread.

What a call leaves behind is not the next record's: where it has set context variables, or was cancelled,
another task goes on with the inbox.
"""

from __future__ import annotations

import asyncio
import math
import operator
import threading
import time
from collections import deque
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from ehkafka.lanes import resizing
from ehkafka.lanes.decision import HoldHead
from ehkafka.lanes.inbox import EPOCH, MESSAGE
from ehkafka.lanes.received import Received
from ehkafka.records.deferral import DEFERRED
from ehkafka.recovery.unrun import must_return_nothing
from ehkafka.workers.tasks.rounds import Rounds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextvars import Context

    from ehkafka.lanes.decision import Decision
    from ehkafka.lanes.inbox import Entry, Inbox
    from ehkafka.workers.call_times import CallTimes
    from ehkafka.workers.hub import Hub
    from ehkafka.workers.protocol import InvokeAsync, PoolOptions


class InboxTasks:
    """A task for each inbox of a handler that has had a record."""

    def __init__(
        self,
        hub: Hub,
        options: PoolOptions,
        *,
        name: str,
        invoke: InvokeAsync,
        restores: bool,
        is_loop_ending: Callable[[], bool],
        explain: Callable[[BaseException], None],
    ) -> None:
        """Call it on the loop's thread: the present context is what each task starts with.

        `restores`: what a handler sets in a message is put back where the record is needed again.
        `is_loop_ending` tells whether others end the loop now, and `explain` adds to what a call raised.
        """
        self._loop = asyncio.get_running_loop()
        self._thread_ident = threading.get_ident()
        self._hub = hub
        self._router = hub.inboxes.router
        self._name = name
        self._invoke = invoke
        self._restores = restores
        self._on_failure = options.on_failure
        self._deferrals = options.deferrals
        self._is_loop_ending = is_loop_ending
        self._explain = explain
        self._context = copy_context()
        self._traces = _traces_in(self._context)
        self._rounds = Rounds(self._loop, self._let_in)
        # The loop itself keeps tasks by weak references only.
        self._tasks: dict[Inbox, asyncio.Task[None]] = {}
        # Inboxes to wake, and whether the loop was called for them. Any thread appends.
        self._woken: deque[Inbox] = deque()
        self._call_is_out = False
        # Done when the hub is closed and nothing is left to do; an engine's error is set on it.
        self.left: asyncio.Future[None] = self._loop.create_future()
        # Set when the loop ends before its time: no call that is cancelled then is its record's fault.
        self.is_dead = False

    def start(self) -> None:
        """Begin with what waits already."""
        inboxes = self._hub.inboxes.all_inboxes()
        for inbox in inboxes:
            inbox.asleep = True
        self._hub.wake = self.wake
        self.wake([inbox for inbox in inboxes if inbox.q])
        self.check_left()

    # -- waking ----------------------------------------------------------------------------------------

    def wake(self, inboxes: Sequence[Inbox]) -> None:
        """Wake the tasks of these inboxes that sleep: by one call of the loop for all. Any thread."""
        asleep = [inbox for inbox in inboxes if inbox.asleep]
        if not asleep:
            return
        for inbox in asleep:
            inbox.asleep = False  # woken once, however often before it has begun
        self._woken.extend(asleep)
        if threading.get_ident() == self._thread_ident and self._loop.is_running():
            self._take_woken()
        elif not self._call_is_out:
            self._call_is_out = True
            with suppress(RuntimeError):  # the loop is closed: there is no task to wake
                self._loop.call_soon_threadsafe(self._take_woken)

    def _take_woken(self) -> None:
        self._call_is_out = False  # first: what is appended from now on has a call of its own
        woken = self._woken
        self._rounds.enter([woken.popleft() for _ in range(len(woken))])
        self.check_left()

    def _let_in(self, inbox: Inbox) -> None:
        """Let the task of an inbox go on; make it where there is none."""
        if inbox not in self._tasks:
            self._begin(inbox)
        elif (gate := inbox.gate) is not None and not gate.done():
            gate.set_result(None)

    def _begin(self, inbox: Inbox) -> None:
        inbox.asleep = True
        if not self._may_begin(inbox):
            self._let_leave(inbox)
            return
        inbox.asleep = False
        inbox.gate = None
        # Not by the loop's factory: a caller's may take the first step at once.
        self._tasks[inbox] = task = asyncio.Task(
            self._serve(inbox), loop=self._loop, name=self._name, context=self._context.copy()
        )
        task.add_done_callback(lambda task: self._ended(inbox, task), context=self._context)

    def _may_begin(self, inbox: Inbox) -> bool:
        return bool(inbox.q) and not inbox.frozen and not self._is_over()

    def _ended(self, inbox: Inbox, task: asyncio.Task[None]) -> None:
        del self._tasks[inbox]
        if not task.cancelled() and (error := task.exception()) is not None and not self.left.done():
            self.left.set_exception(error)
        inbox.asleep = True
        # Another task goes on for one that must serve no other record, or was cancelled while it rested.
        if self._may_begin(inbox):
            self.wake([inbox])
        else:
            self._let_leave(inbox)
        self.check_left()

    def _let_leave(self, inbox: Inbox) -> None:
        """Have an inbox without a task forgotten that is to go, unless a record comes before."""
        if inbox.leaves:
            self._hub.post(self._leave, inbox)

    def _leave(self, inbox: Inbox) -> None:
        if inbox in self._router.leaving:
            resizing.leave(self._hub.inboxes.router, inbox)

    def check_left(self) -> None:
        """Notice that nothing is left to do."""
        if (
            self._hub.closed
            and not self._tasks
            and not self.left.done()
            and not any(inbox.q for inbox in self._hub.inboxes.all_inboxes())
        ):
            self.left.set_result(None)

    # -- calls -----------------------------------------------------------------------------------------

    async def _serve(self, inbox: Inbox) -> None:  # noqa: PLR0912, PLR0915 - calls would cost throughput
        """Serve an inbox. The hot path: each look here is paid by every record."""
        hub, rounds, invoke, traces = self._hub, self._rounds, self._invoke, self._traces
        attempts, deferrals, pace = self._router.attempts, self._deferrals, self._hub.pace
        restores, received = self._restores, None
        create_future, clock = self._loop.create_future, time.perf_counter
        task = asyncio.current_task()
        assert task is not None
        q = inbox.q
        decision: Decision | None
        is_let_in, has_token = True, False
        while True:
            if is_let_in:
                if rounds.is_over:
                    inbox.gate = gate = create_future()
                    rounds.come_late(inbox)
                    await gate
                    continue
                is_let_in, q = False, inbox.q
            if pace is not None and (has_token := bool(q)) and not pace.take():
                # The poll thread wakes as many as there are tokens.
                inbox.head = None
                await self._sleep(inbox)
                is_let_in = True
                continue
            try:
                inbox.head = q[0]  # seen before it leaves the queue
                entry = q.popleft()
            except IndexError:
                if has_token:
                    pace.give_back()  # type: ignore[union-attr]
                if inbox.q is not q:
                    q = inbox.q
                    continue
                inbox.head = None
                if hub.closed or (inbox.leaves and hub.leave(inbox)):
                    return
                hub.note_idle(inbox)
                inbox.gate = gate = create_future()
                inbox.asleep = True
                # Only now: who brings a record, or closes, looks for those that sleep afterwards.
                if inbox.q or hub.closed or inbox.leaves:
                    inbox.asleep = False
                    q = inbox.q
                    continue
                await gate
                is_let_in = True
                continue
            if not rounds.ends_s:
                rounds.open()
            round_number, decision = rounds.number, None
            try:
                number = 1
                if attempts and (known := attempts.get(id(entry[MESSAGE]))) is not None:
                    number += known.failed
                if restores:
                    received = Received(entry[MESSAGE])
                times = hub.call_times
                call = invoke(entry, number) if times is None else self._timed(entry, number, times)
                if (result := await call) is not None:
                    must_return_nothing(result)
                if DEFERRED and deferrals is not None:
                    if received is not None:
                        received.keep_for_answer()
                    decision = deferrals.claims(self._router.attempt_of(entry))
            except BaseException as error:  # SystemExit and the like too: `Failures` stops the app for them
                if isinstance(error, GeneratorExit) and not self._loop.is_running():
                    raise  # this coroutine is thrown away with its loop: nothing was raised
                if received is not None:
                    received.restore()
                decision = self._decide(entry, error)
            if decision is not None and not await self._hand_over(inbox, entry, decision):
                return
            # What a call left on the task, a cancellation too, is not the next record's.
            if traces() or task.cancelling():
                inbox.head = None
                return
            if rounds.number == round_number and clock() > rounds.ends_s:
                # It has not suspended: all others have their turn.
                rounds.is_over = True
                if not inbox.q:
                    continue
                inbox.head, inbox.gate = None, (gate := create_future())
                rounds.enter((inbox,))
                await gate
                is_let_in = True

    async def _sleep(self, inbox: Inbox) -> None:
        inbox.gate = gate = self._loop.create_future()
        inbox.asleep = True
        await gate

    async def _timed(self, entry: Entry, number: int, times: CallTimes) -> object:
        began_s = time.perf_counter()
        try:
            return await self._invoke(entry, number)
        finally:
            times.add(time.perf_counter() - began_s)

    def _decide(self, entry: Entry, error: BaseException) -> Decision:
        """Return what becomes of a record whose call raised."""
        attempt = self._router.attempt_of(entry)
        if DEFERRED and self._deferrals is not None:
            self._deferrals.void(attempt)
        if self._is_over():
            return HoldHead("its event loop died")
        if isinstance(error, asyncio.CancelledError) and entry[EPOCH].ended:
            return HoldHead("the call was cancelled")  # it has no result that could count as ignored
        self._explain(error)
        return self._on_failure(attempt, error)

    async def _hand_over(self, inbox: Inbox, entry: Entry, decision: Decision) -> bool:
        """Have a record taken over with its key's later ones; False where the loop ends before."""
        self._hub.fail(inbox, entry, decision)
        while inbox.frozen and not self._is_over():
            inbox.gate = gate = self._loop.create_future()
            inbox.asleep = True
            if not inbox.frozen:
                inbox.asleep = False
                break
            await gate
        return not self._is_over()

    def _is_over(self) -> bool:
        return self.is_dead or self._is_loop_ending()

    # -- what runs -------------------------------------------------------------------------------------

    def running(self) -> list[tuple[Entry, asyncio.Task[None]]]:
        """Return the calls that run, the oldest first as far as a look has seen them. Any thread."""
        found: list[tuple[float, Entry, asyncio.Task[None]]] = []
        for inbox, task in self._tasks.copy().items():
            head: Any = inbox.head
            if head is not None:
                found.append((inbox.seen_s if inbox.seen is head else math.inf, head, task))
        return [(head, task) for _, head, task in sorted(found, key=operator.itemgetter(0))]

    def cancel_ended(self) -> None:
        """Cancel the calls whose epoch has ended: nothing waits for their results."""
        for inbox, task in self._tasks.items():
            head: Any = inbox.head
            if head is not None and not inbox.frozen and head[EPOCH].ended:
                task.cancel("the record's partition is no longer this member's")

    def cancel_all(self) -> None:
        """Cancel all that runs on a loop that has died before its time."""
        for task in list(self._tasks.values()):
            task.cancel("its event loop died")
        self.left.cancel()

    def hold_all(self) -> None:
        """Hold the records of a loop that was closed: their calls never end. Not on its thread."""
        self.is_dead = True
        for inbox in self._tasks.copy():
            head: Any = inbox.head
            if head is not None and not inbox.frozen:
                self._hub.fail(inbox, head, HoldHead("its event loop was closed"))


def _traces_in(fresh: Context) -> Callable[[], object]:
    """Return what tells whether a call left context variables behind, which are not the next record's."""
    if not fresh:
        return copy_context  # it is true by itself, unless it is empty as well
    variables, missing = tuple(fresh.items()), object()

    def traces() -> bool:
        now = copy_context()
        if len(now) != len(variables):
            return True
        for variable, value in variables:  # noqa: SIM110 - this runs for each record
            if now.get(variable, missing) is not value:
                return True
        return False

    return traces
