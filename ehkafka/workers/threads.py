"""Thread workers: the pool for blocking handlers.

Each thread takes ready lanes from the dispatcher, calls the handler for their heads and hands them in.
It owns nothing shared. The loop below is the hot path: see DESIGN.md before adding a line to it.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING

from ehkafka.workers.exchange import QUICK_S, Exchange

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.lanes.lane import Lane
    from ehkafka.workers.protocol import FailureDesk

# One turn of a lane ends after so many records or so much time, whichever comes first, so that every
# other ready lane is served in a bounded time.
TURN_RECORDS_MAX = 64
TURN_S = 1e-3
# Lanes that a worker takes between two looks at the clock, while handlers are quick.
STINT_LANES_MAX = 64


class ThreadWorkers:
    """`size` daemon threads that execute one handler."""

    def __init__(
        self,
        exchange: Exchange,
        *,
        name: str,
        size: int,
        invoke: Callable[[Lane], object],
        on_failure: FailureDesk,
        on_death: Callable[[BaseException], None],
        set_up: Callable[[], None] | None = None,
        tear_down: Callable[[], None] | None = None,
    ) -> None:
        self._exchange = exchange
        self._invoke = invoke
        self._on_failure = on_failure
        self._on_death = on_death
        self._set_up = set_up
        self._tear_down = tear_down
        self._ready = threading.Semaphore(0)
        self._set_up_error: BaseException | None = None
        self._threads = [
            # Daemons: a handler that never returns must not keep the process from leaving.
            threading.Thread(target=self._main, name=f"ehkafka-{name}-{number}", daemon=True)
            for number in range(size)
        ]

    def start(self) -> None:
        """Start all threads and wait until each has run its set-up. Raises the first set-up's error."""
        for thread in self._threads:
            thread.start()
        for _ in self._threads:
            self._ready.acquire()
        if self._set_up_error is not None:
            self._exchange.close()
            raise self._set_up_error

    def stop(self, timeout_s: float) -> list[str]:
        """Let idle workers leave; return the names of those still busy after `timeout_s` seconds."""
        self._exchange.close()
        deadline_s = time.monotonic() + timeout_s
        for thread in self._threads:
            if thread.ident is not None:  # the system may have refused to start it
                thread.join(max(0.0, deadline_s - time.monotonic()))
        return [thread.name for thread in self._threads if thread.is_alive()]

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is one of these workers."""
        return thread in self._threads

    def stacks(self) -> dict[str, str]:
        """Return the Python stack of every live worker, by thread name."""
        frames = sys._current_frames()  # noqa: SLF001 - the documented way to see other threads' stacks
        return {
            thread.name: "".join(traceback.format_stack(frames[thread.ident]))
            for thread in self._threads
            if thread.ident in frames
        }

    def _main(self) -> None:
        try:
            if self._set_up is not None:
                self._set_up()
        except BaseException as error:  # handed to `start`, which raises it
            self._set_up_error = error
            return
        finally:
            self._ready.release()
        try:
            self._work()
        except BaseException as error:  # not the handler's: the engine's own, and the worker is gone
            self._on_death(error)
            return
        if self._tear_down is not None:
            self._tear_down()

    def _work(self) -> None:
        exchange = self._exchange
        begin = exchange.dispatcher.begin
        gate = threading.Lock()
        gate.acquire()
        stint_lanes = 1
        while True:
            lane = None if exchange.steps_back(gate) else begin()
            if lane is None:
                exchange.settle()
                lane = None if exchange.steps_back(gate) else begin()
            if lane is not None:
                stint_lanes = self._stint(lane, stint_lanes)
            elif exchange.closed:
                return
            else:
                stint_lanes = 1
                exchange.sleep(gate)

    def _stint(self, lane: Lane | None, lanes_max: int) -> int:
        """Run up to `lanes_max` ready lanes, then settle; return how many the next stint may take."""
        exchange = self._exchange
        begin, hand_in, run_turn = exchange.dispatcher.begin, exchange.returned.append, self._run_turn
        if exchange.cost_s > QUICK_S:
            exchange.wake_one()
        started_s = time.perf_counter()
        turn_ends_s = started_s + TURN_S
        records = lanes = 0
        while lane is not None:
            records += run_turn(lane, turn_ends_s)
            hand_in(lane)
            lanes += 1
            if lanes >= lanes_max:
                break
            lane = begin()
        cost_s = (time.perf_counter() - started_s) / (records or 1)
        exchange.note_cost(cost_s)
        exchange.settle()
        return min(lanes_max * 2, STINT_LANES_MAX) if cost_s < QUICK_S else 1

    def _run_turn(self, lane: Lane, turn_ends_s: float) -> int:
        invoke = self._invoke
        records = 0
        try:
            while lane.may_run_head():
                records += 1
                invoke(lane)
                if not lane.advance() or records >= TURN_RECORDS_MAX or time.perf_counter() > turn_ends_s:
                    break
        except BaseException as error:  # SystemExit and the like too: the desk stops the app for them
            lane.decision = self._on_failure(lane, error)
        return records
