"""A pool of threads, each the consumer of one inbox: set-up, tear-down, number, stop, stacks.

What a thread does with its inbox is its subclass's. A thread sleeps on its inbox's gate: it publishes that it
sleeps and then looks once more, while others put something there and look afterwards whether it sleeps; so
nothing is missed.
"""

from __future__ import annotations

import itertools
import sys
import threading
import time
from abc import abstractmethod
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING

from ehkafka.lanes import resizing
from ehkafka.wording.live_stack import thread_stack
from ehkafka.workers.protocol import Workers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ehkafka.lanes.inbox import Inbox
    from ehkafka.workers.hub import Hub
    from ehkafka.workers.protocol import PoolOptions

SIZE_MAX = 10_000


class Worker(threading.Thread):
    """One thread. A daemon: a handler that never returns must not keep the process from leaving."""

    def __init__(self, main: Callable[[], None], name: str) -> None:
        super().__init__(target=main, name=name, daemon=True)
        # Done when the set-up is over; then the thread may continue with its inbox, which is None until all
        # that start together are set up.
        self.is_set_up: Future[None] = Future()
        self.go = threading.Event()
        self.inbox: Inbox | None = None


def open_gates(inboxes: Iterable[Inbox]) -> None:
    """Wake the consumers of these inboxes that sleep. Any thread, without the hub's lock."""
    for inbox in inboxes:
        if inbox.asleep:
            inbox.asleep = False
            try:  # noqa: SIM105 - `suppress` costs more than all else here
                inbox.gate.release()
            except RuntimeError:
                pass  # another thread has woken it in this moment


def sleep_until(inbox: Inbox, is_over: Callable[[], object], wait_s: float = -1) -> None:
    """Sleep on an inbox's gate, unless the wait is over already. It may be woken for nothing."""
    # Published first, looked at second: who ends the wait looks afterwards who sleeps.
    inbox.asleep = True
    if not is_over():
        inbox.gate.acquire(timeout=wait_s)
    inbox.asleep = False


def wait_until_taken(inbox: Inbox) -> None:
    """Sleep until the dispatcher has taken over what this inbox's consumer handed to `Hub.fail`."""
    while inbox.frozen:
        sleep_until(inbox, lambda: not inbox.frozen)


class ThreadPool(Workers):
    """`size` daemon threads that execute one handler."""

    size_max = SIZE_MAX

    def __init__(self, hub: Hub, options: PoolOptions) -> None:
        """Take the hub's inboxes, one for each thread."""
        self._hub = hub
        self._options = options
        # A name is never used twice, so a stack tells which thread it was.
        self._numbers = itertools.count()
        # Replaced and never changed, by who resizes, so others read it without a lock.
        self._workers = self._new_workers(options.size)
        hub.wake = open_gates

    @abstractmethod
    def _consume(self, inbox: Inbox) -> None:
        """Run what is put into an inbox until its worker is to leave. On the worker's thread."""

    def start(self) -> None:
        """Start all threads and wait until each has run its set-up. Raises the first set-up's error."""
        try:
            self._start(self._workers)
        except BaseException:
            self._hub.close()
            raise

    @property
    def size(self) -> int:
        """How many threads take new keys; those that are to leave do not count."""
        return len(self._hub.inboxes.inboxes)

    def resize(self, size: int) -> None:
        """Change the number of threads. Returns once new ones have run their set-up; raises what it raises.

        Surplus threads leave at once when idle, else after their call and what waits of its key; until then
        they may stay after all. One caller at a time.
        """
        with self._hub.locked() as inboxes:
            missing = size - self.size
            if missing < 0:
                resizing.shrink(inboxes.router, -missing)
            elif missing > 0:
                missing -= len(resizing.stay(inboxes.router, missing))
        added = self._new_workers(missing)
        self._workers = [one for one in self._workers if one.is_alive()] + added
        if added:
            self._start(added)

    def stop(self, timeout_s: float) -> list[str]:
        """Let idle workers leave; return the names of those still busy after `timeout_s` seconds."""
        # Closed first: a worker that looks for work after this finds that it must leave, and sleeps no more.
        self._hub.close()
        deadline_s = time.monotonic() + timeout_s
        for worker in self._workers:
            if worker.ident is not None:  # the system may have refused to start it
                worker.join(max(0.0, deadline_s - time.monotonic()))
        return [worker.name for worker in self._workers if worker.is_alive()]

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is one of these workers."""
        # A stop that is called by a handler runs on one of them; to wait for it would take for ever.
        return thread in self._workers

    def stacks(self) -> dict[str, str]:
        """Return the Python stack of every worker that does not sleep, by thread name."""
        frames = sys._current_frames()  # noqa: SLF001 - the documented way to see other threads' stacks
        return {
            worker.name: thread_stack(frames[worker.ident])
            for worker in self._workers
            if worker.ident in frames and not (worker.inbox is not None and worker.inbox.asleep)
        }

    def _new_workers(self, number: int) -> list[Worker]:
        name = self._options.name
        return [Worker(self._main, f"ehkafka-{name}-{next(self._numbers)}") for _ in range(number)]

    def _start(self, workers: list[Worker]) -> None:
        """Start threads, wait for their set-ups, and give each an inbox.

        When a set-up raises, none of them works and it is raised.
        """
        try:
            for worker in workers:
                worker.start()
            wait([worker.is_set_up for worker in workers])
            for worker in workers:
                worker.is_set_up.result()
            with self._hub.locked() as inboxes:
                # More are added only now: records that got there before could wait for a set-up that fails.
                free = [inbox for inbox in inboxes.inboxes if inbox.gate is None]
                free = free or resizing.grow(inboxes.router, len(workers))
                for worker, inbox in zip(workers, free, strict=True):
                    worker.inbox, inbox.gate = inbox, threading.Lock()
                    inbox.gate.acquire()
        finally:
            # Also where one failed: a thread without `go` would wait until the process ends.
            for worker in workers:
                worker.go.set()

    def _main(self) -> None:
        worker = threading.current_thread()
        assert isinstance(worker, Worker)
        try:
            if self._options.set_up is not None:
                self._options.set_up()
            worker.is_set_up.set_result(None)
        except BaseException as error:  # handed to `_start`, which raises it
            worker.is_set_up.set_exception(error)
            return
        worker.go.wait()
        try:
            if worker.inbox is not None:  # else another new worker's set-up has failed
                self._consume(worker.inbox)
        except BaseException as error:  # not the handler's: the engine's own, and the worker is gone
            self._options.on_death(error)
            return
        if self._options.tear_down is not None:
            self._options.tear_down()

    # -- for subclasses, on their threads ----------------------------------------------------------------

    def _may_run(self, inbox: Inbox) -> bool:
        """Tell whether a worker is to look for something to run."""
        pace = self._hub.pace
        return bool(inbox.q) and (pace is None or pace.is_open)

    def _rest(self, inbox: Inbox, wait_s: float = -1) -> bool:
        """Sleep while nothing may run; False once the worker, which shows nothing, is to leave."""
        hub = self._hub
        is_closed = hub.closed  # looked at first: what was put there before is run
        if self._may_run(inbox):
            return True
        if is_closed or (inbox.leaves and hub.leave(inbox)):
            return False
        if not inbox.q:
            hub.note_idle(inbox)
        sleep_until(inbox, lambda: self._is_awake(inbox), wait_s)
        return True

    def _is_awake(self, inbox: Inbox) -> bool:
        """Tell whether a worker is not to sleep."""
        return self._may_run(inbox) or self._hub.closed or (inbox.leaves and not inbox.q)
