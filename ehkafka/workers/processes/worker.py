"""One worker of a process pool: a thread of the parent's and its child, started again whenever it dies."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ehkafka.errors import WorkerDiedError, describe
from ehkafka.events import UserCodeFailed
from ehkafka.workers.processes import wire
from ehkafka.workers.processes.failure import unpack_error
from ehkafka.workers.processes.inbox import ChildInbox
from ehkafka.workers.processes.link import ProcessLink
from ehkafka.workers.processes.run import CHECK_S, BatchRun
from ehkafka.workers.processes.size import BatchSize
from ehkafka.workers.thread_pool import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.workers.processes.workers import ProcessWorkers

# Starts in a row that may fail before the app is stopped, and the wait after the first; it doubles.
STARTS_MAX = 5
START_AGAIN_S = 0.1


class ProcessWorker(Worker):
    """A thread and its child. `link` is the child while there is one; all but reading it is the thread's."""

    def __init__(self, pool: ProcessWorkers, main: Callable[[], None], name: str) -> None:
        super().__init__(main, name)
        self._pool = pool
        # Set once it is ready.
        self.link: ProcessLink | None = None
        self._size = BatchSize(pool.settings.batch_records_max, pool.settings.batch_s)

    def launch(self) -> None:
        """Start a child and wait until it is ready. Raises what its start raises, or `WorkerDiedError`."""
        link = ProcessLink(self._pool.boot, self._pool.take_aside)
        try:
            self._await_ready(link)
        except BaseException:
            link.close()
            raise
        self.link = link

    def _await_ready(self, link: ProcessLink) -> None:
        while not self._pool.is_given_up:
            for kind, said in link.receive(CHECK_S):
                if kind == wire.REFUSED:
                    raise unpack_error(said, link.pid)
                if said:
                    self._pool.on_silent_child()
                return
            if link.is_gone:
                raise WorkerDiedError(
                    f"A worker process of {self._pool.name} ended ({link.bury()}) before it was ready. Look "
                    "at what it wrote to stderr, and at what its modules do when they are imported."
                )
        raise WorkerDiedError(f"A worker process of {self._pool.name} was not ready when the app stopped.")

    def _launch_again(self, inbox: ChildInbox) -> ProcessLink | None:
        """Replace a dead child; None where the pool closes meanwhile and nothing waits."""
        # It shows something that does not move: so it gets no new keys, and what waits goes to others.
        inbox.head = []
        for failed in range(STARTS_MAX):
            if self._pool.hub.closed and not inbox.q:
                break
            try:
                self.launch()
                break
            except BaseException as error:
                if failed == STARTS_MAX - 1:
                    raise WorkerDiedError(
                        f"A worker process of {self._pool.name} could not be started again, {STARTS_MAX} "
                        f"times in a row: {describe(error)}"
                    ) from error
            time.sleep(START_AGAIN_S * 2**failed)
        inbox.head = None
        return self.link

    def run_next(self, inbox: ChildInbox) -> bool:
        """Have the child run a batch of what waits; False where it got none, or cannot be started again."""
        if (link := self.link or self._launch_again(inbox)) is None:
            return False
        settings = self._pool.settings
        with self._pool.hub.locked(noted=False) as inboxes:
            inbox.claims = link.claims
            inboxes.router.note(inbox)
            limits = self._size.records, settings.batch_bytes_max
            entries = inbox.take(*limits, one_of_a_key=self._pool.one_of_a_key)
        if entries:
            done = BatchRun(self._pool, link, inbox, entries).run()
            if done is None:
                self.drop()
            else:
                self._size.note(*done)
        return bool(entries)

    def drop(self) -> None:
        """Let go of a child that is dead, or is to be."""
        link, self.link = self.link, None
        if isinstance(inbox := self.inbox, ChildInbox):
            with self._pool.hub.locked(noted=False):
                inbox.claims = None  # they are about to be closed
        if link is not None:
            link.close()

    def end(self) -> None:
        """Let the child run its tear-down, for as long as its end is waited for."""
        if (link := self.link) is None:
            return
        link.ask_to_leave()
        while not (self._pool.is_given_up or link.is_gone):
            for kind, said in link.receive(CHECK_S):
                if kind == wire.TORN_DOWN:
                    self._pool.emit(UserCodeFailed.of("on_worker_stop", unpack_error(said, link.pid)))
        if not self._pool.is_given_up:
            link.bury()
        self.drop()
