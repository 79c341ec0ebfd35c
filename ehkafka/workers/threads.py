"""Thread workers: the pool for blocking handlers.

Each thread takes ready lanes from the dispatcher, calls the handler for their heads and hands them in.
It owns nothing shared. The number of threads can change while they run. The loop below is the hot path:
see DESIGN.md before adding a line to it.
"""

from __future__ import annotations

import itertools
import sys
import threading
import time
from typing import TYPE_CHECKING

from ehkafka.lanes.chunk import Chunk
from ehkafka.records.deferral import DEFERRED
from ehkafka.wording.live_stack import thread_stack
from ehkafka.workers.batches.exchange import BatchExchange
from ehkafka.workers.batches.turn import Turn
from ehkafka.workers.exchange import QUICK_S, Exchange

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from ehkafka.lanes.lane import Lane
    from ehkafka.workers.call_times import CallTimes
    from ehkafka.workers.protocol import PoolOptions, RunChunk

SIZE_MAX = 10_000
# Where workers wait for work.
IDLE_CODE = frozenset({Exchange.sleep.__code__, BatchExchange.collect.__code__, Turn.begin.__code__})
# How long one turn of a lane lasts at most; how many records: `TURN_RECORDS_MAX`.
TURN_S = 1e-3
# Lanes that a worker takes between two looks at the clock, while handlers are quick: a quarter more records
# than with one lane, and no more with 512.
TURN_LANES_MAX = 64
# Where calls are timed: a lane that takes longer is not counted with the mean of its turn.
SLOW_LANE_S = 250e-6


class ThreadWorkers:
    """`size` daemon threads that execute one handler.

    `run_chunk` calls the handler for one record of a chunk after another; None: its dispatcher makes no
    chunks.
    """

    size_max = SIZE_MAX

    def __init__(
        self,
        exchange: Exchange,
        options: PoolOptions,
        *,
        invoke: Callable[[Lane], object],
        run_chunk: RunChunk | None = None,
    ) -> None:
        self._exchange = exchange
        self._invoke = invoke
        self._on_failure = options.on_failure
        self._on_death = options.on_death
        self._set_up = options.set_up
        self._tear_down = options.tear_down
        self._deferrals = options.deferrals
        self._run_express = run_chunk
        self._turn_records_max = options.turn_records_max
        self._name = options.name
        # Read by `_new_threads` alone: a name is never used twice, so a stack tells which thread it was.
        self._numbers = itertools.count()
        # How many threads too many there are; each that leaves for it takes one off, under the lock.
        self._surplus = 0
        # Guards `_surplus` and who is in `_threads`, which is replaced and never changed, so `owns`, `stop`
        # and `stacks` read it without the lock. Never held while a thread is started or joined.
        self._lock = threading.Lock()
        self._threads = self._new_threads(options.size)
        exchange.note_workers(options.size)

    def start(self) -> None:
        """Start all threads and wait until each has run its set-up. Raises the first set-up's error."""
        try:
            self._start(self._threads)
        except BaseException:
            self._exchange.close()
            raise

    @property
    def size(self) -> int:
        """How many threads take work; those that leave after the record that they run do not count."""
        with self._lock:
            return self._size()

    @property
    def busy(self) -> int:
        """How many threads have something to do, about."""
        return max(0, self.size - self._exchange.idle)

    def resize(self, size: int) -> None:
        """Change the number of threads. Returns once new ones have run their set-up; raises what it raises.

        Surplus threads leave at once when idle, else after their turn. One caller at a time.
        """
        self._exchange.note_workers(size)
        with self._lock:
            missing = size - self._size()
            # Threads that were to leave and have not yet may stay.
            stay = min(self._surplus, max(0, missing))
            self._surplus += max(0, -missing) - stay
            added = self._new_threads(missing - stay)
            self._threads = [t for t in self._threads if t.is_alive() or not t.leaves] + added
        self._start(added)
        # Idle workers sleep without a time-out: only a wake-up lets the surplus ones leave now.
        self._exchange.wake_all()

    def _size(self) -> int:
        return sum(not thread.leaves for thread in self._threads) - self._surplus

    def stop(self, timeout_s: float) -> list[str]:
        """Let idle workers leave; return the names of those still busy after `timeout_s` seconds."""
        # Closed first: a worker that looks for work after this finds that it must leave, and sleeps no more.
        self._exchange.close()
        deadline_s = time.monotonic() + timeout_s
        for thread in self._threads:
            if thread.ident is not None:  # the system may have refused to start it
                thread.join(max(0.0, deadline_s - time.monotonic()))
        return [thread.name for thread in self._threads if thread.is_alive()]

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is one of these workers."""
        # A handler that stops the app stands on one of them; a stop that waited for it would wait for ever.
        return thread in self._threads

    def stacks(self) -> dict[str, str]:
        """Return the Python stack of every worker that has work, by thread name."""
        frames = sys._current_frames()  # noqa: SLF001 - the documented way to see other threads' stacks
        return {
            thread.name: thread_stack(frames[thread.ident])
            for thread in self._threads
            if thread.ident in frames and not _is_idle(frames[thread.ident])
        }

    def _new_threads(self, number: int) -> list[_Thread]:
        return [_Thread(self._main, f"ehkafka-{self._name}-{next(self._numbers)}") for _ in range(number)]

    def _start(self, threads: list[_Thread]) -> None:
        """Start threads and wait for their set-ups; when one raises, none of them works and it is raised."""
        failed = True
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.is_set_up.wait()
            for thread in threads:
                if thread.error is not None:
                    raise thread.error
            failed = False
        finally:
            # Also where one failed: threads that nobody lets go would wait for `go` until the process ends.
            for thread in threads:
                thread.leaves = failed
                thread.go.set()

    def _main(self) -> None:
        thread = threading.current_thread()
        assert isinstance(thread, _Thread)
        try:
            if self._set_up is not None:
                self._set_up()
        except BaseException as error:  # handed to `_start`, which raises it
            thread.error = error
            return
        finally:
            thread.is_set_up.set()
        thread.go.wait()
        try:
            self._work(thread)
        except BaseException as error:  # not the handler's: the engine's own, and the worker is gone
            self._on_death(error)
            return
        if self._tear_down is not None:
            self._tear_down()

    def _work(self, thread: _Thread) -> None:
        exchange = self._exchange
        begin = exchange.dispatcher.begin
        # Locked while this worker runs. It sleeps by acquiring it again; who wakes it releases it once.
        gate = threading.Lock()
        gate.acquire()
        turn_lanes = 1
        while not thread.leaves:
            if self._surplus and self._lets_go(thread):
                break
            lane = None if exchange.steps_back(gate) else begin()
            if lane is None:
                # What others handed in may have made lanes ready that nobody has settled yet.
                exchange.settle()
                lane = None if exchange.steps_back(gate) else begin()
            if lane is not None:
                turn_lanes = self._turn(lane, turn_lanes)
            elif exchange.closed:
                break
            else:
                # `sleep` publishes the gate first and looks for work second; whoever makes work looks for
                # gates afterwards. The other way round, work that comes in between would wake nobody.
                turn_lanes = 1
                exchange.sleep(gate)
        # A waker may have taken this gate already: its token is passed on, or a ready lane waits in vain.
        exchange.retire(gate)

    def _lets_go(self, thread: _Thread) -> bool:
        """Tell whether this thread is one too many; then it must leave."""
        with self._lock:
            if self._surplus:
                self._surplus -= 1
                thread.leaves = True
            return thread.leaves

    def _turn(self, lane: Lane | None, lanes_max: int) -> int:
        """Run up to `lanes_max` ready lanes, then settle; return how many the next turn may take."""
        exchange = self._exchange
        begin, hand_in, run_turn = exchange.dispatcher.begin, exchange.returned.append, self._run_turn
        # Worth a wake-up only where calls are slow: with quick ones this worker is back before a second one
        # is awake, and both would then ask for the interpreter's lock.
        if exchange.cost_s > QUICK_S:
            exchange.wake_one()
        times, clock = exchange.call_times, time.perf_counter
        began_s = started_s = clock()
        turn_ends_s = started_s + TURN_S
        records = lanes = slow_records = 0
        slow_s = 0.0
        while lane is not None:
            if isinstance(lane, Chunk):
                if times is not None:
                    times.add_run(began_s - started_s - slow_s, records - slow_records, TURN_S)
                self._run_chunk(lane)
                return lanes_max
            ran = run_turn(lane, turn_ends_s)
            records += ran
            if times is not None:
                # A lane that took long is counted by itself, the quick ones of a turn together.
                ended_s = clock()
                if ended_s - began_s > SLOW_LANE_S:
                    # All of its records but the last had ended when the turn's time was over.
                    times.add_run(ended_s - began_s, ran, max(0.0, turn_ends_s - began_s))
                    slow_s += ended_s - began_s
                    slow_records += ran
                began_s = ended_s
            # `returned.append` is atomic: no lock is taken to hand a lane in. From here on it belongs to the
            # exchange, and not even its head may be read.
            hand_in(lane)
            lanes += 1
            if lanes >= lanes_max:
                break
            lane = begin()
        spent_s = time.perf_counter() - started_s
        if times is not None and records > slow_records:
            times.add((spent_s - slow_s) / (records - slow_records), records - slow_records)
        cost_s = spent_s / (records or 1)
        if records:  # else the lanes were cut: that no time was spent says nothing of the handler
            exchange.note_cost(cost_s)
            exchange.note_work(spent_s, records)
            exchange.note_lanes(cost_s)
        exchange.settle()
        return min(lanes_max * 2, TURN_LANES_MAX) if cost_s < QUICK_S else 1

    def _run_turn(self, lane: Lane, turn_ends_s: float) -> int:
        invoke, turn_records_max = self._invoke, self._turn_records_max
        records = 0
        try:
            # `begin` has set `running`, now `halted` is read. Who drains sets `halted` and then reads
            # `running`: one of the two sees the other, so nothing starts unnoticed above a drain's limit.
            while lane.may_run_head():
                records += 1
                invoke(lane)
                if DEFERRED and self._deferrals is not None and self._deferrals.claims(lane):
                    break
                # Makes the next record the head before it leaves the queue: the watermark reads heads while
                # this runs, and must never see the lane without its oldest unfinished record.
                if not lane.advance() or records >= turn_records_max or time.perf_counter() > turn_ends_s:
                    break
        except BaseException as error:  # SystemExit and the like too: `Failures` stops the app for them
            # An answer to a call that failed counts for nothing, whichever of the two comes first.
            if DEFERRED and self._deferrals is not None:
                self._deferrals.void(lane)
            lane.decision = self._on_failure(lane, error)
        return records

    def _run_chunk(self, chunk: Chunk) -> None:
        """Run a chunk's records to its end, or to the first that fails or is deferred."""
        exchange, run = self._exchange, self._run_express
        assert run is not None
        assert chunk.iterator is not None
        is_stream = chunk.behind is not None
        started_s = time.perf_counter()
        ended: Lane | Chunk = chunk
        try:
            if run(chunk):
                ended = self._end_at_deferral(chunk)
        except BaseException as error:  # SystemExit and the like too: `Failures` stops the app for them
            ended = self._end_at_failure(chunk, error)
        spent_s = time.perf_counter() - started_s
        if exchange.call_times is not None:
            self._note_times(exchange.call_times, chunk, spent_s)
        records = len(chunk.messages)
        # The poll thread steals the rest of a chunk that takes long, and gives it a lane; then it has noted
        # what that took. Without a record it was ended before it began.
        if records and (chunk.lane is None or ended is not chunk):
            exchange.note_cost(spent_s / records)
            exchange.note_work(spent_s, records)
            if is_stream:
                exchange.note_lanes(spent_s / records)
            else:
                exchange.note_chunk(spent_s, records)
        exchange.returned.append(ended)
        if is_stream:
            exchange.settle()
        else:
            exchange.settle_chunk()

    def _note_times(self, times: CallTimes, chunk: Chunk, spent_s: float) -> None:
        """Count a chunk whole; one that ended early did so at the record that took long, or failed."""
        records = len(chunk.messages)
        rest_s = spent_s if chunk.lane is None else min(spent_s, self._exchange.cost_s * (records - 1))
        times.add_run(spent_s, records, rest_s)

    def _end_at_deferral(self, chunk: Chunk) -> Lane:
        # Only who holds the exchange's lock empties a chunk's iterator, so this takes it.
        lane = self._exchange.end_early(chunk)
        assert lane is not None
        if self._deferrals is None or not self._deferrals.claims(lane):
            lane.advance()
        return lane

    def _end_at_failure(self, chunk: Chunk, error: BaseException) -> Lane | Chunk:
        lane = self._exchange.end_early(chunk)
        if lane is None:  # no record had started
            if chunk.assignment.ended:
                return chunk  # there is nobody to call any more: a class's instance is gone
            raise error
        if DEFERRED and self._deferrals is not None:
            self._deferrals.void(lane)
        lane.decision = self._on_failure(lane, error)
        return lane


def _is_idle(frame: FrameType) -> bool:
    """Tell whether a worker only waits for work: its innermost call is the exchange's, not the user's."""
    return frame.f_code in IDLE_CODE


class _Thread(threading.Thread):
    """One worker. A daemon: a handler that never returns must not keep the process from leaving."""

    def __init__(self, main: Callable[[], None], name: str) -> None:
        super().__init__(target=main, name=name, daemon=True)
        # What the set-up raised; then that it is over, and that the thread may go on.
        self.error: BaseException | None = None
        self.is_set_up = threading.Event()
        self.go = threading.Event()
        # It takes no more work. Written by itself and by who starts it.
        self.leaves = False
