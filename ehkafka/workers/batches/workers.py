"""Batch workers: threads that call a handler for many records at once.

Each takes its turn at collecting, calls the handler, passes over what it finished, asks `Failures`
for what it failed, outside the lock, and hands all of it in. Called by nobody: the threads are its own.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Protocol

from ehkafka.errors import describe
from ehkafka.events import BatchRaised
from ehkafka.events.event import raised
from ehkafka.lanes.order import KeyFailure
from ehkafka.records.signals import RetryLater
from ehkafka.workers.batches.share import Share
from ehkafka.workers.threads import ThreadWorkers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ehkafka.events import Event
    from ehkafka.records.batch import Result
    from ehkafka.workers.batches.exchange import BatchExchange
    from ehkafka.workers.batches.guest_loop import GuestBatchLoop
    from ehkafka.workers.batches.loop import BatchLoop
    from ehkafka.workers.batches.share import Part
    from ehkafka.workers.protocol import PoolOptions


class CallBatch(Protocol):
    """Calls a handler, and notes how its records ended. Any batch worker, without the lock."""

    def __call__(self, parts: Sequence[Part], /) -> Mapping[int, Result]:
        """Call the handler once; return what it said of single records, by their places.

        Raises what the handler raised.
        """

    def note(self, parts: Sequence[Part], results: Mapping[int, Result], /) -> None:
        """Note how the records ended, once the handler has returned; with results the parts are shares."""

    def raised(self, shares: Sequence[Share], /) -> None:
        """Hear that the handler has raised."""


class BatchWorkers(ThreadWorkers):
    """`size` daemon threads that execute one batch handler.

    `loop` is where a handler's coroutines run. The other arguments are those of `ThreadWorkers`.
    """

    def __init__(
        self,
        exchange: BatchExchange,
        options: PoolOptions,
        *,
        call: CallBatch,
        emit: Callable[[Event], None],
        loop: BatchLoop | GuestBatchLoop | None = None,
    ) -> None:
        super().__init__(exchange, options, invoke=_never)
        self._batches = exchange
        self._call = call
        self._emit = emit
        self._handler = options.name
        self._loop = loop

    def start(self) -> None:
        """Start all threads and wait until each has run its set-up. Raises the first set-up's error."""
        if self._loop is not None:
            self._loop.start()
        super().start()

    def stop(self, timeout_s: float) -> list[str]:
        """Let idle workers leave; return the names of those still busy after `timeout_s` seconds."""
        busy = super().stop(timeout_s)
        if self._loop is not None and not busy:
            self._loop.close()
        return busy

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is one of these workers, or their loop's."""
        return super().owns(thread) or (self._loop is not None and self._loop.is_on(thread))

    def stacks(self) -> dict[str, str]:
        """Return the Python stack of every live worker, and where each coroutine waits."""
        return {**super().stacks(), **(self._loop.stacks() if self._loop is not None else {})}

    def _work(self, thread: Any) -> None:
        gate = threading.Lock()
        gate.acquire()
        try:
            while not (thread.leaves or (self._surplus and self._lets_go(thread))):
                parts = self._batches.collect(gate, lambda: self._surplus > 0)
                if parts is None:
                    return
                if parts:
                    self._run(parts)
                # Not kept while it waits: what is freed before more is received is never looked at by
                # Python's collector, see `intake.demand`.
                del parts
        finally:
            self._batches.leave(gate)

    def _run(self, parts: list[Part]) -> None:
        """See one batch through, whatever its handler does."""
        known: list[Part] = []
        unknown: list[Share] = []
        for part in parts:
            # Its order function raised: the handler cannot be given a record whose key nobody knows.
            if isinstance(part, Share) and isinstance(part.lane.key, KeyFailure):
                part.error = part.lane.key.error
                unknown.append(part)
            else:
                known.append(part)
        done = [*unknown, *(self._handle(known) if known else ())]
        self._batches.pass_over(done)
        if left := [part for part in done if isinstance(part, Share) and part.is_open]:
            for share in left:
                if share.error is not None:
                    share.decision = self._on_failure(share.lane, share.error)
            self._batches.hand_in(left)

    def _handle(self, parts: Sequence[Part]) -> Sequence[Part]:
        """Call the handler; return the parts, or where its records did not all end alike, each key's own."""
        began_s = time.perf_counter()
        try:
            results = self._call(parts)
        except BaseException as error:  # SystemExit and the like too: `Failures` stops the app for them
            self._note_call(time.perf_counter() - began_s, parts)
            parts = shares = self._batches.separate(parts)
            self._call.raised(shares)
            self._blame(shares, error)
        else:
            self._note_call(time.perf_counter() - began_s, parts)
            if results:
                parts = self._batches.separate(parts)
            self._call.note(parts, results)
        return parts

    def _note_call(self, spent_s: float, parts: Sequence[Part]) -> None:
        if (times := self._batches.call_times) is not None:
            times.add(spent_s)
        self._batches.note_call(parts, spent_s)

    def _blame(self, shares: list[Share], error: BaseException) -> None:
        """Find who is to blame for a handler that raised; while that is unknown, nobody is."""
        records = sum(len(share.messages) for share in shares)
        if not isinstance(error, Exception) or isinstance(error, MemoryError):
            # Nothing that any record did: the app stops, and none of these may start again before it does.
            named = next((share for share in shares if not share.lane.assignment.ended), shares[0])
            decision = self._on_failure(named.lane, error)
            for share in shares:
                share.decision = decision
        elif records == 1 or isinstance(error, RetryLater):
            for share in shares:
                share.error = error
        else:
            self._emit(BatchRaised(self._handler, records, describe(error), records // 2, **raised(error)))
            self._batches.narrow(shares, records // 2)


def _never(lane: object) -> object:
    raise AssertionError(f"a batch worker was to run {lane!r} alone")
