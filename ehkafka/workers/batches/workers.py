"""Batch workers: threads that call a handler for many records at once, each the consumer of one inbox.

Each takes a batch under the hub's lock, calls the handler, asks `Failures` for what failed, without the lock,
and has that taken over by the dispatcher. While its batch fills it sleeps, until that is full or its time has
come: the first record of a batch wakes it, and then the last one.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from ehkafka.errors import describe
from ehkafka.events import BatchRaised
from ehkafka.events.event import raised
from ehkafka.lanes.decision import RetryHead
from ehkafka.lanes.inbox import EPOCH, KEY
from ehkafka.lanes.order import KeyFailure
from ehkafka.lanes.put_back import put_back
from ehkafka.records.signals import RetryLater
from ehkafka.workers.batches.results import first_of_each_key
from ehkafka.workers.batches.taking import Taking
from ehkafka.workers.batches.width import BatchWidth
from ehkafka.workers.thread_pool import ThreadPool, open_gates

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Sequence

    from ehkafka.events import Event
    from ehkafka.lanes.decision import Decision
    from ehkafka.lanes.inbox import Entry, Inbox
    from ehkafka.lanes.waiting import Failure
    from ehkafka.workers.batches.loop import BatchLoop
    from ehkafka.workers.batches.results import Results
    from ehkafka.workers.batches.taking import BatchLimits
    from ehkafka.workers.hub import Hub
    from ehkafka.workers.protocol import PoolOptions
    from ehkafka.workers.thread_pool import Worker

    # Calls the handler once; returns what became of the records where not all ended well, and raises what the
    # handler raised. Any batch worker, without the lock.
    CallBatch = Callable[[Sequence[Entry]], Results | None]


class BatchWorkers(ThreadPool):
    """`size` daemon threads that execute one batch handler.

    `loop` is where a handler's coroutines run.
    """

    def __init__(
        self,
        hub: Hub,
        options: PoolOptions,
        *,
        call: CallBatch,
        limits: BatchLimits,
        emit: Callable[[Event], None],
        loop: BatchLoop | None = None,
        keys_fail: bool = True,
    ) -> None:
        """`keys_fail`: a key may be a `KeyFailure`, as the user's code makes them."""
        # When the batch of each worker that sleeps goes; never (`inf`) while none has begun.
        self._dues: dict[Inbox, float] = {}
        self._limits = limits
        self._taking = Taking(hub.inboxes, limits)
        # Nothing more will be received. Set once.
        self._is_hurried = False
        super().__init__(hub, options)
        self._call = call
        self._emit = emit
        self._keys_fail = keys_fail
        self._with_keys = hub.inboxes.router.unread.with_keys
        self._on_failure = options.on_failure
        self._loop = loop
        inboxes, self._width = hub.inboxes, BatchWidth()
        inboxes.router.deep = inboxes.balance.call_records = limits.records_max
        inboxes.balance.width, inboxes.router.width = self._width, 1
        hub.dues.append(self._next_due_s)

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
        """Return the Python stack of every worker that runs a batch, and where each coroutine waits."""
        return {**super().stacks(), **(self._loop.stacks() if self._loop is not None else {})}

    def hurry(self) -> None:
        """Hear that nothing more will be received: no batch must wait for more."""
        self._is_hurried = True
        self.wake(self._hub.inboxes.all_inboxes())

    # -- when a batch goes -----------------------------------------------------------------------------

    def wake(self, inboxes: Iterable[Inbox]) -> None:
        """Wake those workers that sleep and have something to do: not all that fills is full."""
        open_gates(inbox for inbox in inboxes if inbox.asleep and self._is_due(inbox))

    def _is_due(self, inbox: Inbox) -> bool:
        """Tell whether a worker is to look, be it in vain."""
        due_s = self._dues.get(inbox, math.inf)
        return (
            due_s == math.inf  # a batch begins, and then its time counts
            or len(inbox.q) >= self._limits.records_max
            or self._limits.bytes_max is not None  # the worker counts
            or self._is_last(inbox)
            or due_s <= self._hub.clock()
            or any(epoch.drain_limit is not None for epoch in list(self._hub.inboxes.router.epochs.values()))
        )

    def _is_last(self, inbox: Inbox) -> bool:
        """Tell whether a worker must wait for nothing more."""
        return self._is_hurried or self._hub.closed or inbox.leaves

    def _next_due_s(self) -> float | None:
        """Return when the next batch goes as it is; None while none fills. Any thread."""
        due_s = min(self._dues.copy().values(), default=math.inf)
        return None if due_s == math.inf else due_s

    def _consume(self, worker: Worker, inbox: Inbox) -> None:
        spent_s = 0.0
        while True:
            is_last = self._is_last(inbox)
            entries = self._take(inbox, spent_s, is_last=is_last)
            if entries:
                began_s = time.perf_counter()
                self._run(inbox, entries)
                spent_s = time.perf_counter() - began_s
                # Not kept while it waits: what is freed before more is received is never looked at by
                # Python's collector, see `intake.demand`.
                del entries
                continue
            leaves = self._hub.closed or inbox.leaves
            # It has published that it sleeps. What is set without the lock it looks at once more.
            if not leaves and is_last == self._is_last(inbox):
                self._sleep_until(inbox, self._dues[inbox])
            inbox.asleep = False
            del self._dues[inbox]
            if leaves and is_last and self._is_to_leave(worker, inbox):
                return

    def _sleep_until(self, inbox: Inbox, due_s: float) -> None:
        """Sleep until then, unless the worker is woken before."""
        wait_s = -1 if due_s == math.inf else max(0.0, due_s - self._hub.clock())
        inbox.gate.acquire(timeout=wait_s)

    def _take(self, inbox: Inbox, spent_s: float, *, is_last: bool) -> list[Entry]:
        """Return the next batch; where none may go, publish that the worker sleeps, and until when."""
        with self._hub.locked(noted=False) as inboxes:
            now_s = self._hub.clock()
            due_s = self._taking.due_s(inbox, now_s)
            if due_s is not None and (is_last or due_s <= now_s):
                return self._taking.take(inbox, spent_s)
            inboxes.router.note(inbox)
            self._dues[inbox] = math.inf if due_s is None else due_s
            inbox.asleep = True
        return []

    # -- a batch ---------------------------------------------------------------------------------------

    def _run(self, inbox: Inbox, entries: list[Entry]) -> None:
        """See one batch through, whatever its handler does."""
        # A record whose order function raised is given to no handler: its key is not known.
        unknown = [entry for entry in entries if type(entry[KEY]) is KeyFailure] if self._keys_fail else []
        known = [entry for entry in entries if not isinstance(entry[KEY], KeyFailure)] if unknown else entries
        results, narrowed_to = self._handle(known) if known else (None, None)
        failed = [] if results is None else results.failed
        failed += [(entry, entry[KEY].error, []) for entry in unknown]  # type: ignore[attr-defined]
        self._end(inbox, entries, failed, results, narrowed_to)

    def _handle(self, entries: list[Entry]) -> tuple[Results | None, int | None]:
        """Call the handler; return what became of the records, if not all ended well.

        The second one is how many a batch with them may have next, where the handler raised.
        """
        began_s, began_cpu_s = time.perf_counter(), time.thread_time()
        try:
            return self._call(entries), None
        except BaseException as error:  # SystemExit and the like too: `Failures` stops the app for them
            return self._blame(entries, error)
        finally:
            self._note_time(entries, began_s, began_cpu_s)

    def _note_time(self, entries: list[Entry], began_s: float, began_cpu_s: float) -> None:
        spent_s = time.perf_counter() - began_s
        self._width.note_call(len(entries), spent_s, time.thread_time() - began_cpu_s)
        if (times := self._hub.call_times) is not None:
            times.add(spent_s)

    def _blame(self, entries: list[Entry], error: BaseException) -> tuple[Results | None, int | None]:
        """Find the record to blame for a handler that raised; while that is unknown, blame none."""
        records = len(entries)
        if records == 1 or isinstance(error, RetryLater) or _stops_the_app(error):
            return first_of_each_key(self._with_keys(entries), error), records
        event = BatchRaised(self._name, records, describe(error), records // 2, **raised(error))
        self._emit(event)
        return None, records // 2

    def _end(
        self,
        inbox: Inbox,
        entries: list[Entry],
        failed: list[tuple[Entry, BaseException, list[Entry]]],
        results: Results | None,
        narrowed_to: int | None,
    ) -> None:
        """Have the dispatcher take over what failed or waits again; the other records have ended."""
        if not failed and results is None and narrowed_to is None and not self._taking.has_narrowed:
            inbox.head = None
            return
        failures = self._decide(failed)
        retried = [failure for failure in failures if isinstance(failure[1], RetryHead)]
        with self._hub.locked(noted=False) as inboxes:
            if failures:
                inboxes.waiting.fail(inbox, failures, self._hub.clock())
            if results is None and narrowed_to is not None:
                assert isinstance(inbox.head, list)
                self._taking.narrow(inbox.head, narrowed_to)
                put_back(inboxes, inbox)
                return
            # A record that is retried stays alone: its batch raised because of it.
            self._taking.widen(entries, but=[entry for entry, _, _ in retried])
            if narrowed_to is not None:
                again = [one for entry, _, later in retried for one in (entry, *later)]
                self._taking.narrow(again, narrowed_to)
            inboxes.end_batch(inbox, [entry for entry, _ in results.skipped] if results else ())

    def _decide(self, failed: list[tuple[Entry, BaseException, list[Entry]]]) -> list[Failure]:
        router = self._hub.inboxes.router
        failures: list[Failure] = []
        stopped: dict[int, Decision] = {}
        for entry, error, later in failed:
            decision = stopped.get(id(error))
            if decision is None:
                named = entry
                if _stops_the_app(error):
                    # None of them has done that, and none may start again before the app stops: one is named.
                    same = (one for one, its_error, _ in failed if its_error is error)
                    named = next((one for one in same if not one[EPOCH].ended), entry)
                decision = self._on_failure(router.attempt_of(named), error)
                if _stops_the_app(error):
                    stopped[id(error)] = decision
            failures.append((entry, decision, later))
        return failures


def _stops_the_app(error: BaseException) -> bool:
    return not isinstance(error, Exception) or isinstance(error, MemoryError)
