"""Lane tasks: the asyncio tasks of one handler, which take ready lanes, await its calls and hand them in.

Everything here runs on the loop's thread. A task serves one lane after another, so that a record costs no
task of its own; it ends when nothing is ready, and so there are never more tasks than there is work for.

Lanes are taken where they stand ready, and out of chunks a few at once (`LoopExchange.take`): those that no
task had use for by the end of the round are handed in as they are, so none waits as if it ran.

A *round* is what the loop does between two calls of `_end_round`, which is once an iteration while anything
is served. There the lanes handed in since are settled together, and tasks are added: a few at a time, and
one only where calls return without ever suspending, because those gain nothing from a second task. A task
whose calls do so goes on for a millisecond of the round, all such tasks together, and then lets the loop
have its turn: quick coroutines starve neither the loop nor each other.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING

from ehkafka.lanes.decision import HoldHead
from ehkafka.records.deferral import DEFERRED
from ehkafka.recovery.unrun import must_return_nothing
from ehkafka.workers.protocol import TURN_RECORDS_MAX

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ehkafka.lanes.lane import Lane
    from ehkafka.recovery.pending import PendingAnswers
    from ehkafka.workers.call_times import CallTimes
    from ehkafka.workers.exchange import Exchange
    from ehkafka.workers.protocol import Failures

# What calls that never suspend may take of one round, all tasks together. As long as a turn on threads:
# every other ready call waits no longer for the loop.
ROUND_S = 1e-3
# Tasks added in one round while calls suspend. They are for as long as there is work, so few at a time are
# soon enough; 16, of which most found their lanes taken, cost a third of a record.
NEW_TASKS_MAX = 2
# A turn of a lane whose calls suspend ends after so many records, or after so long: other lanes wait for it.
SUSPENDED_RECORDS_MAX = 8
SUSPENDED_S = 5e-3
# Lanes taken out of chunks at once, at most: enough to share the lock among, few to hand in again.
TAKEN_MAX = 32
# A task that did nothing but quick turns for so long is surplus, if another one waits for its round.
QUICK_TURNS_MAX = 16


class LaneTask:
    """One task and the lane whose handler it awaits; None between two lanes."""

    __slots__ = ("lane", "task")

    def __init__(self) -> None:
        self.lane: Lane | None = None
        # Set before its first step.
        self.task: asyncio.Task[None]


class LaneTasks:
    """Up to `size` tasks at a time."""

    def __init__(
        self,
        exchange: Exchange,
        *,
        name: str,
        size: int,
        invoke: Callable[[Lane], Awaitable[object]],
        on_failure: Failures,
        deferrals: PendingAnswers | None = None,
        turn_records_max: int = TURN_RECORDS_MAX,
        is_loop_ending: Callable[[], bool] = lambda: False,
        explain: Callable[[BaseException], None] = lambda _error: None,
    ) -> None:
        """Call it on the loop's thread: the present context is what each attempt starts with.

        `is_loop_ending` tells whether others end the loop now, and `explain` adds to what a call raised.
        """
        self.size = size
        # Live tasks, oldest first. Other threads read it through a copy.
        self.live: dict[asyncio.Task[None], LaneTask] = {}
        # Done when the exchange is closed and nothing is left to do; an engine's error is set on it.
        self.left: asyncio.Future[None]
        self._loop = asyncio.get_running_loop()
        self.left = self._loop.create_future()
        self._exchange = exchange
        self._name = name
        self._invoke = invoke
        self._on_failure = on_failure
        self._deferrals = deferrals
        self._turn_records_max = turn_records_max
        self._suspended_records_max = min(SUSPENDED_RECORDS_MAX, turn_records_max)
        self._is_loop_ending = is_loop_ending
        self._explain = explain
        self._context = copy_context()
        # True when the last call left context variables behind. While the fresh context is empty, a copy of
        # the present one tells it by itself: it is true unless it is empty, too.
        self._traces: Callable[[], object] = self._find_traces if self._context else copy_context
        self._gate = LoopGate(self._loop, self._woken)
        self._gate_is_out = False
        self._round = 0
        self._round_is_open = False
        self._round_ends_s = 0.0
        # The round in which a turn's time was noted last.
        self._noted = -1
        # Whether a call returned in the round that it began in.
        self._saw_quick = False
        # Tasks that wait for the next round with their hands free.
        self._waiting = 0
        # Lanes taken out of chunks that no task has yet, the oldest last; empty between two rounds. How many
        # are taken next: twice as many where they were used up, half as many where some were left.
        self._taken: list[Lane] = []
        self._taken_max = 1
        # Set when the loop ends before its time: no call that is cancelled then is its record's fault.
        self.is_dead = False

    def feed(self) -> None:
        """Settle what was handed in, and see to it that ready lanes are taken or will be."""
        if self._is_over():
            return
        exchange = self._exchange
        exchange.settle()
        ready = exchange.ready_lanes()
        if ready:
            wanted = (1 if self._saw_quick else NEW_TASKS_MAX) - self._waiting
            for _ in range(min(wanted, ready, self.size - len(self.live))):
                self._add()
        elif not exchange.closed:
            self._fall_asleep()
        elif not self.live and not exchange.returned and not self.left.done():
            self.left.set_result(None)
        elif exchange.returned:
            self._open_round()  # another thread has the lock: look again
        self._saw_quick = False

    def cancel_ended(self) -> None:
        """Cancel the calls whose epoch has ended: nobody waits for their results."""
        for one in list(self.live.values()):
            if one.lane is not None and one.lane.assignment.ended:
                one.task.cancel("the record's partition is no longer this member's")

    def hold_all(self) -> None:
        """Hand in the lanes of a loop that was closed: their calls never end. Not on its thread."""
        self.is_dead = True
        self.give_back()
        for one in list(self.live.values()):
            if (lane := one.lane) is not None:
                lane.decision = HoldHead("its event loop was closed")
                self._exchange.returned.append(lane)
        self.live.clear()

    def give_back(self) -> None:
        """Hand in the lanes that were taken and that no task has."""
        if self._taken:
            self._taken_max = max(1, self._taken_max // 2)
            # The oldest first: that is how they become ready again.
            self._exchange.returned.extend(reversed(self._taken))
            self._taken.clear()

    def _take(self) -> Lane | None:
        """Take a lane that is ready, or make some of records that wait; None where there is nothing."""
        exchange = self._exchange
        begin = exchange.dispatcher.begin
        if (lane := begin()) is not None:
            return lane
        # What others handed in may have made lanes ready that nobody has settled yet.
        taken = exchange.take(self._taken_max)
        if not taken:
            exchange.settle()
            return begin()
        self._taken_max = min(2 * self._taken_max, TAKEN_MAX)
        taken.reverse()
        lane = taken.pop()
        self._taken = taken
        return lane

    def _is_over(self) -> bool:
        return self.is_dead or self._is_loop_ending()

    def _fall_asleep(self) -> None:
        if self._gate_is_out:
            return
        self._gate_is_out = True
        if not self._exchange.publish(self._gate):
            self._gate_is_out = False
            self._open_round()  # work came in between: look again

    def _woken(self) -> None:
        self._gate_is_out = False
        self.feed()

    def _open_round(self) -> None:
        if not self._round_is_open:
            self._round_is_open = True
            self._round_ends_s = time.perf_counter() + ROUND_S
            self._loop.call_soon(self._end_round, context=self._context)

    def _end_round(self) -> None:
        self._round += 1
        self._round_is_open = False
        self.give_back()
        self.feed()

    def _add(self) -> None:
        one = LaneTask()
        # Not by the loop's factory: a caller's may take the first step at once.
        one.task = task = asyncio.Task(
            self._serve(one), loop=self._loop, name=self._name, context=self._context.copy()
        )
        self.live[task] = one
        task.add_done_callback(self._ended, context=self._context)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self.live[task]
        # Cancelled from outside while it had no lane: another one takes its place.
        if not task.cancelled() and (error := task.exception()) is not None and not self.left.done():
            self.left.set_exception(error)
        self._open_round()

    async def _serve(self, one: LaneTask) -> None:  # noqa: PLR0912 - calls would cost throughput
        """Take lane after lane while there are any. The hot path: each look here is paid by every record."""
        exchange, task, live, traces = self._exchange, one.task, self.live, self._traces
        hand_in, invoke, deferrals = exchange.returned.append, self._invoke, self._deferrals
        quick_turns = 0
        while True:
            if not self._round_is_open:
                self._open_round()
            lane = self._taken.pop() if self._taken else self._take()
            if lane is None:
                return
            one.lane = lane
            begun, round_ends_s = self._round, self._round_ends_s
            records = 0
            # The turn: head after head. In here, as a coroutine of its own for each would cost a fifth more.
            try:
                while lane.may_run_head():
                    times = exchange.call_times
                    if (
                        result := await (invoke(lane) if times is None else self._timed(lane, times))
                    ) is not None:
                        must_return_nothing(result)
                    if DEFERRED and deferrals is not None and deferrals.claims(lane):
                        break
                    records += 1
                    # What a call left on the task, a cancellation too, is not the next record's.
                    if not lane.advance() or traces() or task.cancelling():
                        break
                    if self._is_turn_over(begun, round_ends_s, records):
                        break
            except BaseException as error:  # SystemExit and the like too: `Failures` stops the app for them
                if isinstance(error, GeneratorExit) and not self._loop.is_running():
                    raise  # this coroutine is thrown away with its loop: nothing was raised
                self._failed(lane, error)
            one.lane = None
            has_suspended = begun != self._round
            if has_suspended and self._noted != self._round:
                # Once a round is enough for a mean. The turn began within the round before.
                self._noted = self._round
                exchange.note_work(time.perf_counter() - round_ends_s + ROUND_S, lane.finished_records or 1)
            hand_in(lane)
            if traces() or task.cancelling() or len(live) > self.size:
                self._replace()
                return
            if has_suspended:
                quick_turns = 0
                continue
            self._saw_quick = True
            quick_turns += 1
            if time.perf_counter() > self._round_ends_s:
                if self._waiting and quick_turns >= QUICK_TURNS_MAX:
                    return
                await self._wait_a_round()

    def _is_turn_over(self, begun: int, round_ends_s: float, records: int) -> bool:
        """Tell whether other lanes are to have their turn, after so many records of one."""
        if not self._round_is_open:
            self._open_round()
        if begun == self._round:
            return records >= self._turn_records_max or time.perf_counter() > round_ends_s
        return records >= self._suspended_records_max or time.perf_counter() > round_ends_s + SUSPENDED_S

    async def _timed(self, lane: Lane, times: CallTimes) -> object:
        began_s = time.perf_counter()
        try:
            return await self._invoke(lane)
        finally:
            times.add(time.perf_counter() - began_s)

    def _failed(self, lane: Lane, error: BaseException) -> None:
        if DEFERRED and self._deferrals is not None:
            self._deferrals.void(lane)
        if self._is_over():
            lane.decision = HoldHead("its event loop died")
        elif not isinstance(error, asyncio.CancelledError) or not lane.assignment.ended:
            self._explain(error)
            lane.decision = self._on_failure(lane, error)

    def _replace(self) -> None:
        """Let another task go on for one that must serve no other lane, unless it is one too many."""
        if len(self.live) <= self.size and self._exchange.ready_lanes() and not self._is_over():
            self._add()

    def _find_traces(self) -> bool:
        """Tell whether the last call left context variables behind, which are not the next record's."""
        now, fresh = copy_context(), self._context
        return len(now) != len(fresh) or any(now.get(one) is not value for one, value in fresh.items())

    async def _wait_a_round(self) -> None:
        self._waiting += 1
        try:
            await asyncio.sleep(0)
        finally:
            self._waiting -= 1


class LoopGate:
    """The gate by which an event loop sleeps at an exchange: `woken` is called on its thread at a release.

    A thread's gate is a lock that it waits for; a loop must never wait, so it publishes this one and goes on
    with its other work. Released from any thread, at most once for each time that it was published: so there
    is never more than one wake-up on its way.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, woken: Callable[[], None]) -> None:
        self._loop = loop
        self._woken = woken

    def release(self) -> None:
        """Wake the loop. Any thread, never under the exchange's lock."""
        with suppress(RuntimeError):  # the loop is closed: nobody is left to be woken
            self._loop.call_soon_threadsafe(self._woken)
