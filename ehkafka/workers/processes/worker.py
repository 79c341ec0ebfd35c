"""One worker of a process pool: a thread of the parent's and its child, started again whenever it dies."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ehkafka.errors import WorkerDiedError, describe
from ehkafka.workers.processes import pipe
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
    """A thread and its child. Everything but `pid`, `kill` and `stack` is the thread's own."""

    def __init__(self, pool: ProcessWorkers, main: Callable[[], None], name: str) -> None:
        super().__init__(main, name)
        self._pool = pool
        self._link: ProcessLink | None = None
        self._size = BatchSize(pool.settings.batch_records_max, pool.settings.batch_s)

    @property
    def pid(self) -> int | None:
        """The child's process id, while there is one."""
        link = self._link
        return None if link is None else link.pid

    def kill(self) -> None:
        """End the child at once. Any thread."""
        if (link := self._link) is not None:
            link.kill()

    def stack(self, ends_s: float) -> str | None:
        """Return where the child is if it has records, as far as it tells by then. Any thread."""
        link, inbox = self._link, self.inbox
        return link.stack(ends_s) if link is not None and inbox is not None and inbox.head else None

    # -- the child's life ------------------------------------------------------------------------------

    def launch(self) -> None:
        """Start a child and wait until it is ready. Raises what its start raises, or `WorkerDiedError`."""
        link = ProcessLink(self._pool.boot)
        try:
            self._await_ready(link)
        except BaseException:
            link.close()
            raise
        self._link = link

    def _await_ready(self, link: ProcessLink) -> None:
        while not self._pool.is_given_up:
            for frame in link.reader.take_until(time.monotonic() + CHECK_S):
                if self._pool.takes_aside(frame):
                    continue
                if frame.kind == pipe.REFUSED:
                    raise unpack_error(frame.body, link.pid)
                if frame.body == pipe.SILENT:
                    self._pool.on_silent_child()
                link.is_ready = True
                return
            if link.reader.ended or link.is_dead:
                raise WorkerDiedError(
                    f"A worker process of {self._pool.name} ended ({link.bury()}) before it was ready. Look "
                    "at what it wrote to stderr, and at what its modules do when they are imported."
                )
        raise WorkerDiedError(f"A worker process of {self._pool.name} was not ready when the app stopped.")

    def _launch_again(self, inbox: ChildInbox) -> bool:
        """Replace a dead child; False where the pool closes meanwhile and nothing waits."""
        # It shows something that does not move: so it gets no new keys, and what waits goes to others.
        inbox.head = []
        wait_s = START_AGAIN_S
        for attempt in range(1, STARTS_MAX + 1):
            if self._pool.closing.is_set() and not inbox.q:
                break
            try:
                self.launch()
            except BaseException as error:
                if attempt == STARTS_MAX:
                    raise WorkerDiedError(
                        f"A worker process of {self._pool.name} could not be started again, {STARTS_MAX} "
                        f"times in a row: {describe(error)}"
                    ) from error
            else:
                break
            self._pool.closing.wait(wait_s)
            wait_s *= 2
        inbox.head = None
        return self._link is not None

    def run_next(self, inbox: ChildInbox) -> bool:
        """Have the child run a batch of what waits; False where it got none, or cannot be started again."""
        if self._link is None and not self._launch_again(inbox):
            return False
        link, settings = self._link, self._pool.settings
        assert link is not None
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
        link, self._link = self._link, None
        if isinstance(inbox := self.inbox, ChildInbox):
            with self._pool.hub.locked(noted=False):
                inbox.claims = None  # its pipe is about to be closed
        if link is not None:
            link.close()

    def end(self) -> None:
        """Let the child run its tear-down, for as long as its end is waited for."""
        link = self._link
        if link is None:
            return
        link.ask_to_end()
        while not self._pool.is_given_up and not link.reader.ended and not link.is_dead:
            for frame in link.reader.take_until(time.monotonic() + CHECK_S):
                if not self._pool.takes_aside(frame) and frame.kind == pipe.TORN_DOWN:
                    self._pool.on_tear_down_error(unpack_error(frame.body, link.pid))
        if not self._pool.is_given_up:
            link.bury()
        self.drop()
