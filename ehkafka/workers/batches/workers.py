"""Batch workers: threads that call a handler for many records at once, each the consumer of one inbox.

Each takes a batch under the hub's lock, calls the handler, asks `Failures` for what failed, without the lock,
and has that taken over by the dispatcher. While its batch fills it sleeps, until that is full or its time has
come: the first record of a batch wakes it, and then the last one.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from ehkafka.errors import HandlerFailedError, describe
from ehkafka.events import BatchRaised
from ehkafka.events.event import raised
from ehkafka.lanes.inbox import EPOCH
from ehkafka.lanes.put_back import put_back
from ehkafka.lanes.width import Width
from ehkafka.records.batch import Failed
from ehkafka.records.signals import RetryLater
from ehkafka.workers.batches.results import Results
from ehkafka.workers.batches.taking import Taking
from ehkafka.workers.tasks.other_loop import explain_other_loop
from ehkafka.workers.thread_pool import ThreadPool, open_gates

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Sequence

    from ehkafka.events import Event
    from ehkafka.lanes.decision import Decision
    from ehkafka.lanes.inbox import Entry, Inbox
    from ehkafka.lanes.waiting import Failure
    from ehkafka.workers.batches.taking import BatchLimits
    from ehkafka.workers.hub import Hub
    from ehkafka.workers.protocol import PoolOptions
    from ehkafka.workers.tasks.shared import SharedLoop

    # Calls the handler once; returns what became of the records where not all ended well, and raises what the
    # handler raised. Any batch worker, without the lock.
    CallBatch = Callable[[Sequence[Entry]], Results | None]


class BatchWorkers(ThreadPool):
    """`size` daemon threads that execute one batch handler. `loop` is where a handler's coroutines run."""

    def __init__(
        self,
        hub: Hub,
        options: PoolOptions,
        *,
        call: CallBatch,
        limits: BatchLimits,
        emit: Callable[[Event], None],
        loop: SharedLoop | None = None,
    ) -> None:
        super().__init__(hub, options)
        hub.wake, hub.own_due_s = self._wake, self._next_due_s
        # What each worker saw that has found no batch: when the one that fills goes (`inf` where none has
        # begun), and the number of the last record.
        self._seen: dict[Inbox, tuple[float, int]] = {}
        self._limits = limits
        self._taking = Taking(hub.inboxes, limits)
        self._call = call
        self._emit = emit
        self._loop = loop
        inboxes, self._width = hub.inboxes, Width(1, is_measured=True)
        inboxes.router.deep = limits.records_max
        inboxes.balance.width, inboxes.router.width = self._width, 1

    def start(self) -> None:
        """Start all threads and wait until each has run its set-up. Raises the first set-up's error."""
        if self._loop is not None:
            self._loop.open(self._options.name)
        super().start()

    def stop(self, timeout_s: float) -> list[str]:
        """Let idle workers leave; return the names of those still busy after `timeout_s` seconds."""
        busy = super().stop(timeout_s)
        if self._loop is not None and not busy:
            self._loop.close(self._options.name)
        return busy

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is one of these workers, or their loop's."""
        return super().owns(thread) or (self._loop is not None and self._loop.owns(thread))

    def stacks(self) -> dict[str, str]:
        """Return the Python stack of every worker that runs a batch, and where each coroutine waits."""
        on_loop = {} if self._loop is None else self._loop.stacks(f"handler {self._options.name!r}")
        return {**super().stacks(), **on_loop}

    # -- when a batch goes -----------------------------------------------------------------------------

    def _wake(self, inboxes: Iterable[Inbox]) -> None:
        """Wake those workers that sleep and have something to do: not all that fills is full."""
        open_gates(inbox for inbox in inboxes if inbox.asleep and self._is_awake(inbox))

    def _may_run(self, inbox: Inbox) -> bool:
        """Tell whether a worker is to look, even if it may find nothing."""
        waiting, limits = len(inbox.q), self._limits
        due_s, sent = self._seen.get(inbox, (math.inf, -1))
        # The first record of a batch, whose time counts then, or perhaps the last one.
        counts = due_s == math.inf or waiting >= limits.records_max or limits.bytes_max is not None
        return waiting > 0 and (
            (counts and inbox.sent != sent)
            or self._is_last(inbox)
            or due_s <= self._hub.clock()
            or any(epoch.drain_limit is not None for epoch in list(self._hub.inboxes.router.epochs.values()))
        )

    def _is_last(self, inbox: Inbox) -> bool:
        """Tell whether a worker must wait for nothing more."""
        return self._hub.is_hurried or inbox.leaves

    def _next_due_s(self) -> float | None:
        """Return when the next batch goes as it is; None while none fills. Any thread."""
        due_s = min((due_s for due_s, _ in self._seen.copy().values()), default=math.inf)
        return None if due_s == math.inf else due_s

    def _consume(self, inbox: Inbox) -> None:
        spent_s = 0.0
        while True:
            if entries := self._take(inbox, spent_s):
                spent_s = self._run(inbox, entries)
                # Not kept while it waits: what is freed before more is received is never looked at by
                # Python's collector, see `intake.backpressure`.
                del entries
                continue
            due_s, _ = self._seen[inbox]
            wait_s = -1 if due_s == math.inf else max(0.0, due_s - self._hub.clock())
            if not self._rest(inbox, wait_s):
                return

    def _take(self, inbox: Inbox, spent_s: float = 0.0) -> list[Entry]:
        """Return the next batch; where none may go, note what was seen."""
        with self._hub.locked(noted=False) as inboxes:
            now_s = self._hub.clock()
            due_s = self._taking.due_s(inbox, now_s)
            if due_s is not None and (due_s <= now_s or self._is_last(inbox)):
                self._seen.pop(inbox, None)
                return self._taking.take(inbox, spent_s)
            inboxes.router.note(inbox)
            self._seen[inbox] = math.inf if due_s is None else due_s, inbox.sent
        return []

    # -- a batch ---------------------------------------------------------------------------------------

    def _run(self, inbox: Inbox, entries: list[Entry]) -> float:
        """See one batch through, whatever its handler does; return how long the call took."""
        began_s, began_cpu_s = time.perf_counter(), time.thread_time()
        try:
            results, narrowed_to = self._call(entries), None
        except BaseException as error:  # SystemExit and the like too: `Failures` stops the app for them
            results, narrowed_to = self._blame(entries, self._on_loop(error))
        spent_s = time.perf_counter() - began_s
        self._width.note_call(len(entries), spent_s, time.thread_time() - began_cpu_s)
        if (times := self._hub.call_times) is not None:
            times.add(spent_s)
        self._end(inbox, results, narrowed_to)
        return spent_s

    def _on_loop(self, error: BaseException) -> BaseException:
        """Return what a call has raised; where its loop has ended before it, what no policy skips."""
        if (loop := self._loop) is None:
            return error
        if isinstance(error, HandlerFailedError) and loop.is_ending:
            from asyncio import CancelledError  # noqa: PLC0415 - loaded where there is a loop

            self._options.on_death(error)
            ended = CancelledError("the event loop of the batch handler ended")
            ended.__cause__ = error
            return ended
        explain_other_loop(error, self._options.name, is_callers=loop.is_callers)
        return error

    def _blame(self, entries: list[Entry], error: BaseException) -> tuple[Results | None, int]:
        """Find the record to blame for a handler that raised; while that is unknown, blame none.

        The number is how many records a batch with any of these may have next.
        """
        records = len(entries)
        if records == 1 or isinstance(error, RetryLater) or _stops_the_app(error):
            with_keys = self._hub.inboxes.router.unread.with_keys(entries)
            failed = Failed(error)  # type: ignore[arg-type]
            return Results.of(with_keys, dict.fromkeys(range(records), failed)), records
        self._emit(BatchRaised(self._options.name, records, describe(error), records // 2, **raised(error)))
        return None, records // 2

    def _end(self, inbox: Inbox, results: Results | None, narrowed_to: int | None = None) -> None:
        """Have the dispatcher take over what failed or waits again; the other records have ended."""
        if results is None and narrowed_to is None:
            inbox.head = None
            return
        failures = [] if results is None else self._decide(results.failed)
        with self._hub.locked(noted=False) as inboxes:
            if narrowed_to is not None:
                assert isinstance(inbox.head, list)
                self._taking.narrow(inbox.head, narrowed_to)
            if results is None:
                put_back(inboxes, inbox)
                return
            if failures:
                inboxes.waiting.fail(inbox, failures, self._hub.clock())
            inboxes.end_batch(inbox, [entry for entry, _ in results.skipped])

    def _decide(self, failed: list[tuple[Entry, BaseException, list[Entry]]]) -> list[Failure]:
        router = self._hub.inboxes.router
        decided: dict[int, Decision] = {}
        failures: list[Failure] = []
        # What stops the app is decided once: no record has done it by itself, and none may start again before
        # the stop. One whose result counts is named for it.
        for entry, error, later in sorted(failed, key=lambda one: one[0][EPOCH].ended):
            if not (_stops_the_app(error) and id(error) in decided):
                decided[id(error)] = self._options.on_failure(router.attempt_of(entry), error)
            failures.append((entry, decided[id(error)], later))
        return failures


def _stops_the_app(error: BaseException) -> bool:
    return not isinstance(error, Exception) or isinstance(error, MemoryError)
