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
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from ehkafka.lanes import resizing
from ehkafka.wording.live_stack import thread_stack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ehkafka.lanes.inbox import Inbox
    from ehkafka.workers.hub import Hub
    from ehkafka.workers.protocol import PoolOptions

SIZE_MAX = 10_000


class Worker(threading.Thread):
    """One thread. A daemon: a handler that never returns must not keep the process from leaving."""

    def __init__(self, main: Callable[[], None], name: str) -> None:
        super().__init__(target=main, name=name, daemon=True)
        # What the set-up raised; then that it is over, and that the thread may continue with its inbox.
        self.error: BaseException | None = None
        # None until it is set up, where the pool grows.
        self.inbox: Inbox | None = None
        self.is_set_up = threading.Event()
        self.go = threading.Event()
        # It is to leave once nothing waits in its inbox. Written by who starts and resizes.
        self.leaves = False

    def take(self, inbox: Inbox) -> None:
        """Be the consumer of an inbox."""
        self.inbox = inbox
        inbox.gate = threading.Lock()
        inbox.gate.acquire()

    @property
    def is_asleep(self) -> bool:
        """Whether it waits on its gate."""
        return self.inbox is not None and self.inbox.asleep


def open_gates(inboxes: Iterable[Inbox]) -> None:
    """Wake the consumers of these inboxes that sleep. Any thread."""
    for inbox in inboxes:
        if inbox.asleep:
            inbox.asleep = False
            try:  # noqa: SIM105 - `suppress` costs more than all else here
                inbox.gate.release()
            except RuntimeError:
                pass  # another thread has woken it in this moment


def wait_until_taken(inbox: Inbox) -> None:
    """Sleep until the dispatcher has taken over what this inbox's consumer handed to `Hub.fail`."""
    while inbox.frozen:
        # Published first, looked at second: who takes it over thaws the inbox and then looks who sleeps.
        inbox.asleep = True
        if inbox.frozen:
            inbox.gate.acquire()
        inbox.asleep = False


class ThreadPool(ABC):
    """`size` daemon threads that execute one handler."""

    size_max = SIZE_MAX

    def __init__(self, hub: Hub, options: PoolOptions) -> None:
        """Take the hub's inboxes, one for each thread."""
        self._hub = hub
        self._on_death = options.on_death
        self._set_up = options.set_up
        self._tear_down = options.tear_down
        self._name = options.name
        # A name is never used twice, so a stack tells which thread it was.
        self._numbers = itertools.count()
        # Replaced and never changed, by who resizes, so others read it without a lock.
        self._workers = self._new_workers(options.size)
        for worker, inbox in zip(self._workers, hub.inboxes.inboxes, strict=True):
            worker.take(inbox)
        hub.wake = self.wake

    @abstractmethod
    def _consume(self, worker: Worker, inbox: Inbox) -> None:
        """Run what comes into a worker's inbox until it is to leave. On the worker's thread."""

    def wake(self, inboxes: Iterable[Inbox]) -> None:
        """Wake the workers of these inboxes that sleep. Any thread, without the hub's lock."""
        open_gates(inboxes)

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
        return sum(not worker.leaves for worker in self._workers)

    @property
    def busy(self) -> int:
        """How many threads have something to do, about."""
        return sum(inbox.head is not None for inbox in self._hub.inboxes.inboxes)

    def resize(self, size: int) -> None:
        """Change the number of threads. Returns once new ones have run their set-up; raises what it raises.

        Surplus threads leave at once when idle, else after their call and what waits of its key; until then
        they may stay after all. One caller at a time.
        """
        missing = size - self.size
        if missing > 0:
            missing -= self._keep(missing)
        added = self._new_workers(missing)
        self._workers = [one for one in self._workers if one.is_alive() or not one.leaves] + added
        if added:
            # Their inboxes come last: records that got there before could wait for a set-up that fails.
            self._start(added, self._grow)
        elif missing < 0:
            with self._hub.locked() as inboxes:
                gone = resizing.shrink(inboxes.router, -missing)
                for worker in self._workers:
                    worker.leaves |= worker.inbox in gone

    def _keep(self, threads: int) -> int:
        """Let up to so many threads stay that were to leave; return how many there were."""
        with self._hub.locked() as inboxes:
            staying = resizing.stay(inboxes.router, threads)
            for worker in self._workers:
                if worker.inbox in staying:
                    worker.leaves = False
        return len(staying)

    def _grow(self, workers: Sequence[Worker]) -> None:
        with self._hub.locked() as inboxes:
            for worker, inbox in zip(workers, resizing.grow(inboxes.router, len(workers)), strict=True):
                worker.take(inbox)

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
            if worker.ident in frames and not worker.is_asleep
        }

    def _new_workers(self, number: int) -> list[Worker]:
        return [Worker(self._main, f"ehkafka-{self._name}-{next(self._numbers)}") for _ in range(number)]

    def _start(
        self, workers: list[Worker], ready: Callable[[Sequence[Worker]], object] = lambda _workers: None
    ) -> None:
        """Start threads and wait for their set-ups, then call `ready`.

        When a set-up raises, none of them works and it is raised.
        """
        failed = True
        try:
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.is_set_up.wait()
            for worker in workers:
                if worker.error is not None:
                    raise worker.error
            ready(workers)
            failed = False
        finally:
            # Also where one failed: a thread without `go` would wait until the process ends.
            for worker in workers:
                worker.leaves = failed
                worker.go.set()

    def _main(self) -> None:
        worker = threading.current_thread()
        assert isinstance(worker, Worker)
        try:
            if self._set_up is not None:
                self._set_up()
        except BaseException as error:  # handed to `_start`, which raises it
            worker.error = error
            return
        finally:
            worker.is_set_up.set()
        worker.go.wait()
        try:
            if worker.inbox is not None:  # else another new worker's set-up has failed
                self._consume(worker, worker.inbox)
        except BaseException as error:  # not the handler's: the engine's own, and the worker is gone
            self._on_death(error)
            return
        if self._tear_down is not None:
            self._tear_down()

    # -- for subclasses, on their threads ----------------------------------------------------------------

    def _is_to_leave(self, worker: Worker, inbox: Inbox) -> bool:
        """Tell whether a worker that found nothing, and shows nothing, is to leave now."""
        if self._hub.closed:
            return True
        return worker.leaves and self._hub.leave(inbox)

    def _sleep(self, worker: Worker, inbox: Inbox) -> None:
        """Sleep until something has come into a worker's inbox, or it is to leave."""
        # In this order, as in `wait_until_taken`: who puts a record there looks afterwards who sleeps.
        inbox.asleep = True
        if not (inbox.q or worker.leaves or self._hub.closed):
            inbox.gate.acquire()
        inbox.asleep = False
