"""Where the poll thread meets batch workers: one of them collects, the others wait for their turn at it.

The collector looks under the lock and, when the batch is to wait, publishes its gate in the same hold of
the lock. So whatever changes before is in its look, and whoever changes something after finds the gate and
looks himself: there is nothing between. It is woken only for a batch that may go, or to wait less long than
it does; nobody looks again and again. Batch workers wait for the lock, twice a batch. Whose turn it is:
`Turn`.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ehkafka.lanes.express_mode import ExpressMode
from ehkafka.workers.batches.plan import BatchPlan
from ehkafka.workers.batches.share import Share
from ehkafka.workers.batches.turn import Turn
from ehkafka.workers.exchange import Exchange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ehkafka.lanes.dispatcher import Dispatcher
    from ehkafka.lanes.order import KeyReader
    from ehkafka.workers.batches.share import BatchLimits, Part

# How many times as much as by itself a record may cost in a batch while batches have chunks. Their workers
# fight for the interpreter's lock, and a batch waits for it as a whole.
PATIENCE = 2.0
# A worker whose batches take less for a record collects the next one itself: no other could be quicker.
QUICK_RECORD_S = 2e-6
# A timer that is this much too late is not worth waking the collector for.
TIMER_SLACK_S = 1e-3


class BatchExchange(Exchange):
    """Shared state of one batch handler's poll side and worker side."""

    def __init__(self, dispatcher: Dispatcher, clock: Callable[[], float], limits: BatchLimits) -> None:
        super().__init__(dispatcher, clock)
        self._mode = ExpressMode(PATIENCE)
        # Under the lock, as the dispatcher.
        self.plan = BatchPlan(dispatcher, limits)
        # One at a time collects, so that batches fill.
        self._turn = Turn()
        # The waiting collector's gate, a locked lock, and until when it waits; under the lock. Who takes
        # the gate away releases it.
        self._waiting: threading.Lock | None = None
        self._waits_until_s = 0.0
        # Whether the last batch was quick. Any worker writes it; a lost update does no harm.
        self._is_quick = False

    def use_slices(self, reader: KeyReader, records_max: int) -> None:
        """Let batches take chunks while records are cheap. Before the first one."""
        self.dispatcher.use_slices(reader, records_max).on = self._mode.on

    def collect(
        self, gate: threading.Lock, is_surplus: Callable[[], bool] = lambda: False
    ) -> list[Part] | None:
        """Return the next batch; empty when woken for something else, None when it is time to leave.

        Any worker, with its own locked gate. Waits as long as it takes. `is_surplus` tells whether there are
        too many workers: then it takes nothing, also after it has waited for its turn.
        """
        self._turn.begin(gate)
        parts: list[Part] | None = []
        try:
            with self.locked():
                # In the same hold as the gate: who makes a worker surplus looks for gates afterwards.
                parts = [] if (surplus := is_surplus()) else self._take()
                if parts or parts is None or surplus:
                    return parts
                timeout_s = self._publish(gate)
            gate.acquire(timeout=timeout_s)
            with self.locked():
                self._take_back(gate)
                parts = [] if is_surplus() else self._take()
                return parts
        finally:
            self._turn.end(gate, self._clock() if parts and self._is_quick else None)

    def leave(self, gate: threading.Lock) -> None:
        """Let others collect: this worker comes back no more."""
        self._turn.leave(gate)

    def note_call(self, parts: Sequence[Part], spent_s: float) -> None:
        """Take into account what the handler took for a batch: whether the next ones have chunks or lanes."""
        records = sum(len(part.messages) for part in parts)
        self._is_quick = spent_s < QUICK_RECORD_S * records
        self.note_work(spent_s, records)
        if self.dispatcher.express is None:
            return
        if any(not isinstance(part, Share) for part in parts):
            self.note_chunk(spent_s, records)
        else:
            self.note_lanes(spent_s / records)

    def separate(self, parts: Sequence[Part]) -> list[Share]:
        """Give each key of a batch a share of its own, as its records end in different ways."""
        with self.locked():
            return self.plan.separate(parts)

    def pass_over(self, parts: Sequence[Part]) -> None:
        """Move the lanes of a batch over the records that ended; hand in those with nothing to decide.

        Chunks are those all of whose records have finished.
        """
        with self.locked():
            shares = [part for part in parts if isinstance(part, Share)]
            self.plan.pass_over(shares)
            chunks = [part for part in parts if not isinstance(part, Share)]
            self.plan.hand_in([*chunks, *(share for share in shares if not share.is_open)], self._clock())
            self._wake_if_due()

    def hand_in(self, shares: Iterable[Share]) -> None:
        """Hand in the lanes for which there was something to decide."""
        with self.locked():
            self.plan.hand_in(shares, self._clock())
            self._wake_if_due()

    def narrow(self, shares: list[Share], records: int) -> None:
        """Pass the lanes of a batch that raised again, in smaller ones. Before they are handed in."""
        with self.locked():
            self.plan.narrow(shares, records)

    def settle(self) -> None:
        """Settle what was handed in; then the collector's batch may be one that may go."""
        came = bool(self.returned or self._answers)
        super().settle()
        if came:
            self.wake_one()

    def watch(self) -> bool:
        """See to it that a batch that may go is taken; True while a batch runs whose worker has the turn."""
        self.settle()
        is_kept = self._turn.watch(self._clock())
        self.wake_one()
        # Or somebody is about to take a batch, and may keep the turn then.
        return is_kept or (self._is_quick and self._turn.is_taken and self._waiting is None)

    def note_watch(self, *, is_close: bool) -> None:
        """Let a turn be kept only while somebody would take it away."""
        self._turn.allow(keeping=is_close)

    def wake_one(self) -> None:
        """Wake the collector if its batch may go now, or sooner than it waits for."""
        if self._waiting is not None and self.plan.due.has_work:
            with self._lock:
                self._wake_if_due()

    def wake_all(self) -> None:
        """Wake the collector: something other than work has changed for it."""
        self._turn.take_away()
        with self._lock:
            self._release_waiting()

    @property
    def takes_all(self) -> bool:
        """Always: batches fill from all that is there."""
        return True

    @property
    def waits_for_more(self) -> bool:
        """Whether the collector waits for its batch to fill."""
        return self._waiting is not None

    def hurry(self) -> None:
        """Wait for no more records from here on: none will come. Poll thread, when a stop begins."""
        self.plan.due.is_hurried = True
        self.wake_all()

    def close(self) -> None:
        """Let every worker leave once nothing is ready."""
        self.closed = self.plan.due.is_hurried = True
        self._turn.close()
        self.wake_all()

    def earliest_due_s(self) -> float | None:
        """Return when the next retry is due, or the next batch goes as it is. Any thread."""
        due_s = super().earliest_due_s()
        with self._lock:
            now_s = self._clock()
            wait_s = self.plan.wait_s(now_s)
        dues = (due_s, None if wait_s is None else now_s + wait_s)
        return min((due for due in dues if due is not None), default=None)

    def _waits_for_time(self) -> bool:
        return self.plan.wait_s(self._clock()) != 0.0

    def _take(self) -> list[Part] | None:
        """Return a batch that may go, else an empty list; None: it is time to leave. Caller has the lock."""
        now_s = self._clock()
        while (wait_s := self.plan.wait_s(now_s)) == 0.0:
            if parts := self.plan.take(now_s):
                return parts
        return None if self.closed and wait_s is None else []

    def _publish(self, gate: threading.Lock) -> float:
        """Let wakers find the gate; return the time-out to wait with. Caller has the lock."""
        now_s = self._clock()
        wait_s = self.plan.wait_s(now_s)
        self._waiting = gate
        self._waits_until_s = threading.TIMEOUT_MAX if wait_s is None else now_s + wait_s
        return -1 if wait_s is None else wait_s

    def _take_back(self, gate: threading.Lock) -> None:
        """Make the gate the collector's own again, and locked, woken or not. Caller has the lock."""
        if self._waiting is None:
            gate.acquire(blocking=False)  # a waker may have come as the time was up: take its token
        self._waiting = None

    def _wake_if_due(self) -> None:
        """Caller has the lock."""
        if self._waiting is None:
            return
        now_s = self._clock()
        wait_s = self.plan.wait_s(now_s)
        if wait_s is not None and (wait_s == 0.0 or now_s + wait_s < self._waits_until_s - TIMER_SLACK_S):
            self._release_waiting()

    def _release_waiting(self) -> None:
        gate, self._waiting = self._waiting, None
        if gate is not None:
            gate.release()
