"""The tasks of one handler on an event loop, which serve its inboxes: see the protocol of `inbox`.

Inboxes with records are queued. A task takes the first one, serves it until it is empty, and takes the next;
without a queued inbox the task rests. There are as many tasks as calls ran at once. A record costs no task,
lock or report: a task shows it, removes it and waits for its call. All methods except `wake` and the marked
ones run on the loop's thread.

*Rounds* share the loop's time. A round is the loop's work between two calls of `_begin_round`, one an
iteration while any record begins. Calls that never suspend may take a millisecond of it, all tasks together:
then inboxes with more records are queued again, and no other inbox is taken before the next round, so that
quick coroutines starve neither the loop nor each other. Calls that suspend give way by that.

A task whose call has set context variables or was cancelled ends, and another one continues with the inbox:
the next record inherits neither.
"""

from __future__ import annotations

import asyncio
import math
import operator
import time
from collections import deque
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Final, cast

from ehkafka.lanes import resizing
from ehkafka.lanes.decision import HoldHead
from ehkafka.lanes.inbox import EPOCH, MESSAGE
from ehkafka.lanes.received import ReceivedMessage
from ehkafka.records.deferral import DEFERRED
from ehkafka.recovery.unrun import must_return_nothing
from ehkafka.workers.tasks.other_loop import explain_other_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextvars import Context

    from ehkafka.lanes.decision import Decision
    from ehkafka.lanes.inbox import Entry, Inbox
    from ehkafka.workers.call_times import CallTimes
    from ehkafka.workers.hub import Hub
    from ehkafka.workers.protocol import InvokeAsync, PoolOptions
    from ehkafka.workers.tasks.shared import SharedLoop

# What the records of one round may take, all tasks together.
ROUND_S: Final = 1e-3
# How many tasks each one that begins lets begin behind it: few, since those that find the time over end.
NEXT_TASKS: Final = 4


class InboxTasks:
    """The tasks that serve the inboxes of a handler."""

    def __init__(
        self, hub: Hub, options: PoolOptions, loop: SharedLoop, invoke: InvokeAsync, *, restores: bool
    ) -> None:
        """Call it on the loop's thread: the present context is what each task starts with.

        `restores`: what a handler sets in a message is put back where the record is needed again.
        """
        self._hub = hub
        self._router = hub.inboxes.router
        self._options = options
        self._shared = loop
        self._loop = loop.loop
        self._invoke = invoke
        self._restores = restores
        self._context = copy_context()
        self._traces = _traces_in(self._context)
        # Inboxes that are to be served, in order. Any thread appends.
        self._queued: deque[Inbox] = deque()
        # All tasks, since the loop itself keeps them by weak references only; the task that serves each
        # inbox; the future that each resting task awaits.
        self._tasks: set[asyncio.Task[None]] = set()
        self._served: dict[Inbox, asyncio.Task[None]] = {}
        self._resting: dict[asyncio.Task[None], asyncio.Future[None]] = {}
        # A call that returns in a later round than it began in has suspended.
        self._round = 0
        # When its time is over, 0 before its first record; whether a call that did not suspend ended later.
        self._round_ends_s = 0.0
        self._round_is_over = False
        # Whether the next one was asked for.
        self._round_is_due = False
        # Done when the hub is closed and nothing is left to do; an engine's error is set on it.
        self.left: asyncio.Future[None] = self._loop.create_future()
        # Set where all calls end before their time: none that is cancelled then is its record's fault.
        self._is_dead = False
        # What waits already.
        inboxes = hub.inboxes.all_inboxes()
        for inbox in inboxes:
            inbox.asleep = True
        hub.wake = self.wake
        self.wake([inbox for inbox in inboxes if inbox.q])
        self._check_left()

    # -- rounds ----------------------------------------------------------------------------------------

    def wake(self, inboxes: Sequence[Inbox]) -> None:
        """Have those of these inboxes served that sleep: by one call of the loop for all. Any thread."""
        asleep = [inbox for inbox in inboxes if inbox.asleep]
        for inbox in asleep:
            inbox.asleep = False  # woken once, however often before it is served
        self._queued.extend(asleep)
        if asleep and not self._round_is_due:
            self._round_is_due = True
            with suppress(RuntimeError):  # the loop is closed: nothing is served there
                self._loop.call_soon_threadsafe(self._begin_round)

    def _begin_round(self) -> None:
        self._round_is_due = False  # first: what is queued from now on has a call of its own
        self._round += 1
        self._round_ends_s = 0.0
        self._round_is_over = False
        if not (self.left.done() or self._is_over()):
            self._begin_tasks(1)
        self._check_left()

    def _open_round(self) -> None:
        """Begin to measure, before a round's first record, and have the next one begun."""
        self._round_ends_s = time.perf_counter() + ROUND_S
        if not self._round_is_due:
            self._round_is_due = True
            self._loop.call_soon(self._begin_round)

    def _begin_tasks(self, most: int) -> None:
        """Let so many tasks begin for what is queued: those that rest, or else new ones."""
        beginning = len(self._tasks) - len(self._resting) - len(self._served)
        for _ in range(min(most, len(self._queued) - beginning)):
            if self._resting:
                _, gate = self._resting.popitem()
                if not gate.done():  # else it was cancelled, and another one begins at its end
                    gate.set_result(None)
                continue
            # Not by the loop's factory: a caller's may take the first step at once.
            name, context = self._shared.thread.name, self._context.copy()
            task = asyncio.Task(self._work(), loop=self._loop, name=name, context=context)
            self._tasks.add(task)
            task.add_done_callback(self._ended, context=self._context)

    def _take_next(self, task: asyncio.Task[None]) -> Inbox | None:
        """Return the inbox that a task serves next; None where none is queued, or the round is over."""
        while self._queued and not self._round_is_over:
            inbox = self._queued.popleft()
            if inbox not in self._served:  # two may have woken it at once
                self._served[inbox] = task
                return inbox
        return None

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.remove(task)
        self._resting.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None and not self.left.done():
            self.left.set_exception(error)  # the engine's own
        if self._queued:
            self._open_round()
        self._check_left()

    def _let_sleep(self, inbox: Inbox) -> None:
        """Let an inbox sleep whose task serves it no more, unless there is something to do."""
        del self._served[inbox]
        before = inbox.frozen, inbox.leaves
        if not inbox.frozen:
            inbox.head = None
            if not inbox.q and inbox.leaves:
                self._hub.post(self._leave, inbox)
            elif not inbox.q:
                self._hub.note_idle(inbox)
        inbox.asleep = True
        # Only now: who brings a record, takes a failure over or shrinks looks for those that sleep later.
        pace = self._hub.pace  # the poll thread wakes as many as there are tokens
        has_work = inbox.q and not inbox.frozen and (pace is None or pace.is_open)
        if has_work or (inbox.frozen, inbox.leaves) != before:
            self.wake([inbox])
        self._check_left()

    def _leave(self, inbox: Inbox) -> None:
        if inbox in self._router.leaving:
            resizing.leave(self._hub.inboxes.router, inbox)

    def _check_left(self) -> None:
        """Notice that nothing is left to do."""
        if (
            self._hub.closed
            and not (self._served or self._queued or self.left.done())
            and not any(inbox.q for inbox in self._hub.inboxes.all_inboxes())
        ):
            self.left.set_result(None)
            for gate in self._resting.values():
                gate.cancel()

    # -- calls -----------------------------------------------------------------------------------------

    async def _work(self) -> None:  # noqa: PLR0912, PLR0915 - calls would cost throughput
        """Serve inboxes, and rest between them. The hot path: each look here is paid by every record."""
        hub, invoke, traces, clock = self._hub, self._invoke, self._traces, time.perf_counter
        attempts, deferrals, pace = self._router.attempts, self._options.deferrals, self._hub.pace
        restores, received, unread = self._restores, None, self._router.unread
        task = asyncio.current_task()
        assert task is not None
        decision: Decision | None
        begins = True
        while not self.left.done():
            inbox = self._take_next(task)
            if inbox is None:
                self._resting[task] = gate = self._loop.create_future()
                await gate
                begins = True
                continue
            if begins:
                self._begin_tasks(NEXT_TASKS)
            q, begins, goes_on = inbox.q, False, True
            # Frozen: a failure of its is not taken over yet.
            while not inbox.frozen and (pace is None or pace.take()):
                try:
                    inbox.head = entry = q[0]  # seen before it leaves the queue
                    if unread.ahead is entry:
                        if pace is not None:
                            pace.give_back()
                        hub.inspect(inbox)
                        break
                    q.popleft()
                except IndexError:
                    if pace is not None:
                        pace.give_back()
                    if inbox.q is q:
                        break
                    q = inbox.q
                    continue
                if not self._round_ends_s:
                    self._open_round()
                round_number, decision = self._round, None
                try:
                    number = 1
                    if attempts and (known := attempts.get(id(entry[MESSAGE]))) is not None:
                        number += known.failed
                    if restores:
                        received = ReceivedMessage(entry[MESSAGE])
                    times = hub.call_times
                    call = invoke(entry, number) if times is None else self._timed(entry, number, times)
                    if (result := await call) is not None:
                        must_return_nothing(result)
                    if DEFERRED and deferrals is not None:
                        if received is not None:
                            received.keep_for_answer()
                        decision = deferrals.awaits(self._router.attempt_of(entry))
                except BaseException as error:  # SystemExit and the like too: `Failures` stops the app
                    if isinstance(error, GeneratorExit) and not self._loop.is_running():
                        raise  # this coroutine is thrown away with its loop: nothing was raised
                    if received is not None:
                        received.restore()
                    decision = self._decide(entry, error)
                if decision is not None:
                    hub.fail(inbox, entry, decision)  # with its key's later ones
                # What a call left on the task, a cancellation too, is not the next record's.
                if traces() or task.cancelling():
                    goes_on = False
                    break
                if self._round == round_number and clock() > self._round_ends_s:
                    self._round_is_over = True  # it has not suspended: all others have their turn
                    break
            self._let_sleep(inbox)
            if not goes_on:
                return

    async def _timed(self, entry: Entry, number: int, times: CallTimes) -> object:
        began_s = time.perf_counter()
        try:
            return await self._invoke(entry, number)
        finally:
            times.add(time.perf_counter() - began_s)

    def _decide(self, entry: Entry, error: BaseException) -> Decision:
        """Return what becomes of a record whose call raised."""
        options, attempt = self._options, self._router.attempt_of(entry)
        if DEFERRED and options.deferrals is not None:
            options.deferrals.void(attempt)
        if self._is_over():
            return HoldHead("its event loop died")
        if isinstance(error, asyncio.CancelledError) and entry[EPOCH].ended:
            return HoldHead("the call was cancelled")  # it has no result that could count as ignored
        explain_other_loop(error, options.name, is_callers=self._shared.is_callers)
        return options.on_failure(attempt, error)

    def _is_over(self) -> bool:
        return self._is_dead or self._shared.is_ending

    # -- what runs -------------------------------------------------------------------------------------

    def running(self) -> list[tuple[Entry, asyncio.Task[None]]]:
        """Return the calls that run, the oldest first as far as a look has seen them. Any thread."""
        found: list[tuple[float, Entry, asyncio.Task[None]]] = []
        for inbox, task in self._served.copy().items():
            head: Any = inbox.head
            if head is not None:
                found.append((inbox.seen_s if inbox.seen is head else math.inf, head, task))
        return [(head, task) for _, head, task in sorted(found, key=operator.itemgetter(0))]

    def cancel_ended(self) -> None:
        """Cancel the calls whose epoch has ended: nothing waits for their results."""
        for entry, task in self.running():
            if entry[EPOCH].ended:
                task.cancel("the record's partition is no longer this member's")

    def end(self) -> None:
        """End all calls before their time: by a cancellation, or on a closed loop, where they never end."""
        self._is_dead = True
        if not self._loop.is_closed():
            for task in self._tasks:
                task.cancel("its event loop died")
            return
        for inbox in self._served.copy():
            if (head := cast("Entry | None", inbox.head)) is not None:
                self._hub.fail(inbox, head, HoldHead("its event loop was closed"))


def _traces_in(fresh: Context) -> Callable[[], object]:
    """Return what tells whether a call left context variables behind, which are not the next record's."""
    if not fresh:
        return copy_context  # it is true by itself, unless it is empty as well
    variables = tuple(fresh.items())

    def traces() -> bool:
        now = copy_context()
        if len(now) != len(variables):
            return True
        for variable, value in variables:  # noqa: SIM110 - this runs for each record
            if now[variable] is not value:
                return True
        return False

    return traces
