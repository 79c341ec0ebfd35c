"""Process workers: the pool for handlers that are bound by the CPU.

Each worker is a thread of this process and a child that runs the handler, started again whenever it dies; the
thread waits, so it costs no share of the GIL. Records are copied to the child in batches, and what became of
each comes back in order. A pool must never fork: its children are started afresh, without any client, thread
or lock of this process.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ehkafka.errors import WorkerDiedError, describe
from ehkafka.events import UserCodeFailed, WorkersLogNothing
from ehkafka.workers.processes import wire
from ehkafka.workers.processes.boot import boot_bytes
from ehkafka.workers.processes.failure import unpack_error
from ehkafka.workers.processes.inbox import ChildInbox
from ehkafka.workers.processes.link import ProcessLink
from ehkafka.workers.processes.option import PROCESSES_MAX
from ehkafka.workers.processes.run import CHECK_S, BatchRun
from ehkafka.workers.thread_pool import ThreadPool, Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ehkafka.events import Event
    from ehkafka.lanes.inbox import Inbox
    from ehkafka.outputs.outlet import Outlet
    from ehkafka.workers.hub import Hub
    from ehkafka.workers.processes.option import Processes
    from ehkafka.workers.protocol import Around, PoolOptions

# For children that were killed: their threads need a moment to see it.
LET_GO_S = 1.0
# All children write their stacks meanwhile: the poll thread waits for it.
STACKS_S = 0.1
# Starts in a row that may fail before the app is stopped, and the wait after the first; it doubles.
STARTS_MAX = 5
START_AGAIN_S = 0.1


class ProcessWorker(Worker):
    """A thread and its child."""

    # While there is one that is ready. Other threads may read it.
    link: ProcessLink | None = None
    # How many records its next batch has at most.
    batch_records = 1


class ProcessWorkers(ThreadPool):
    """Daemon threads with a child each that execute one handler."""

    size_max = PROCESSES_MAX

    def __init__(
        self,
        hub: Hub,
        settings: Processes,
        *,
        options: PoolOptions,
        call: object,
        parts: Mapping[str, object],
        on_stop: Callable[[Any, float | None], None],
        emit: Callable[[Event], None],
        history: Around | None = None,
        outlet: Outlet | None = None,
        deadline_s: float | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`call.bind(…)`, in the child, gives what is called with a message and its attempt.

        `parts` names what `call` is made of; `history` goes around each call; `outlet` takes what calls send,
        None where they send nothing. `on_stop` hears what a handler gave to `App.stop` there, `now_s` is the
        clock of deadlines. Raises `ConfigurationError` for what cannot be pickled.
        """
        self._boot = boot_bytes(call, parts=parts, set_up=options.set_up, tear_down=options.tear_down)
        self.hub = hub
        self.settings = settings
        self.options = options
        self.name = f"ehkafka-{options.name}"
        self._on_stop = on_stop
        self.history = history
        self.outlet = outlet
        self.deadline_s = deadline_s
        self.now_s = now_s
        # A key whose next record waits for outputs has one in a batch, too: a child knows of no
        # acknowledgement.
        self.one_of_a_key = outlet is not None and outlet.before_next
        self.emit = emit
        # Set once: no result is waited for any more.
        self.is_given_up = False
        # Reported once, whichever of the threads is first; reported twice would do no harm.
        self._is_silence_reported = False
        # The users' own set-up and tear-down run in each child.
        super().__init__(hub, replace(options, set_up=self._launch, tear_down=self._let_leave))

    def let_go(self) -> None:
        """Kill the children that are left, for which nothing waits. Their records stay unfinished."""
        self.is_given_up = True
        for _, link in self._links():
            link.kill()
        self.stop(LET_GO_S)

    def stacks(self) -> dict[str, str]:
        """Return the Python stacks of the busy children, by their threads' names."""
        busy = {one.name: link for one, link in self._links() if one.inbox is not None and one.inbox.head}
        for link in busy.values():
            link.ask_for_stack()
        time.sleep(STACKS_S if busy else 0.0)
        return {name: link.stack() for name, link in busy.items()}

    @property
    def pids(self) -> list[int]:
        """The process ids of the children that live now, but for those of workers that are to leave."""
        return [link.pid for worker, link in self._links() if worker.inbox is None or not worker.inbox.leaves]

    def _links(self) -> list[tuple[Worker, ProcessLink]]:
        workers = [worker for worker in self._workers if isinstance(worker, ProcessWorker)]
        return [(worker, link) for worker in workers if (link := worker.link) is not None]

    # -- the workers' threads --------------------------------------------------------------------------

    def _new_workers(self, number: int) -> list[Worker]:
        return [ProcessWorker(self._main, f"{self.name}-{next(self._numbers)}") for _ in range(number)]

    def _consume(self, inbox: Inbox) -> None:
        worker = _this_worker()
        assert isinstance(inbox, ChildInbox)
        inbox.pace = self.hub.pace
        try:
            while not self.is_given_up:
                if not (self._run_next(worker, inbox) or self._rest(inbox)):
                    return
        except BaseException:  # the child cannot be started again, or a defect of the engine
            self._drop(worker)
            raise

    def _run_next(self, worker: ProcessWorker, inbox: ChildInbox) -> bool:
        """Have the child run a batch of what waits; False where it got none, or cannot be started again."""
        if worker.link is None:
            self._launch_again(worker, inbox)
        if (link := worker.link) is None:
            return False
        with self.hub.locked(noted=False) as inboxes:
            inbox.permits = link.permits
            inboxes.router.note(inbox)
            bytes_max = self.settings.batch_bytes_max
            entries = inbox.take(worker.batch_records, bytes_max, one_of_a_key=self.one_of_a_key)
        if entries:
            ran = BatchRun(self, link, inbox, entries).run()
            worker.batch_records = self._fitting(worker.batch_records, *ran)
            if link.is_gone:
                self._drop(worker)
        return bool(entries)

    def _fitting(self, before: int, records: int, elapsed_s: float) -> int:
        """Return how many records a batch may have after one: at once few if they are dear, else twice it."""
        if not records:
            return before
        fitting = int(self.settings.batch_s * records / max(elapsed_s, 1e-9))
        return max(1, min(fitting, 2 * records, self.settings.batch_records_max))

    # -- a worker's child, on its thread -----------------------------------------------------------------

    def _launch(self) -> None:
        """Start a child and wait until it is ready. Raises what its start raises, or `WorkerDiedError`."""
        worker = _this_worker()
        link = ProcessLink(self._boot, self._on_stop)
        try:
            self._await_ready(link)
        except BaseException:
            link.close()
            raise
        worker.link = link

    def _await_ready(self, link: ProcessLink) -> None:
        while not self.is_given_up:
            for kind, said in link.receive(CHECK_S):
                if kind == wire.REFUSED:
                    raise unpack_error(said, link.pid)
                if said and not self._is_silence_reported:
                    self._is_silence_reported = True
                    self.emit(WorkersLogNothing(self.name))
                return
            if link.is_gone:
                raise WorkerDiedError(
                    f"A worker process of {self.name} ended ({link.bury()}) before it was ready. Read its "
                    f"output on stderr, and check what its modules do when they are imported."
                )
        raise WorkerDiedError(f"A worker process of {self.name} was not ready when the app stopped.")

    def _launch_again(self, worker: ProcessWorker, inbox: ChildInbox) -> None:
        """Replace a dead child, unless the pool closes meanwhile and nothing waits."""
        # It shows something that does not move: so it gets no new keys, and what waits goes to others.
        inbox.head = []
        failed = 0
        while worker.link is None and (inbox.q or not self.hub.closed):
            try:
                self._launch()
            except BaseException as error:
                failed += 1
                if failed == STARTS_MAX:
                    raise WorkerDiedError(
                        f"A worker process of {self.name} could not be started again, {STARTS_MAX} "
                        f"times in a row: {describe(error)}"
                    ) from error
                time.sleep(START_AGAIN_S * 2 ** (failed - 1))
        inbox.head = None

    def _drop(self, worker: ProcessWorker) -> None:
        """Let go of a child that is dead, or is to be."""
        link, worker.link = worker.link, None
        if isinstance(inbox := worker.inbox, ChildInbox):
            with self.hub.locked(noted=False):
                inbox.permits = None  # they are about to be closed
        if link is not None:
            link.close()

    def _let_leave(self) -> None:
        """Let the child run its tear-down, for as long as its end is waited for."""
        worker = _this_worker()
        if (link := worker.link) is None:
            return
        link.send(wire.LEAVE)
        while not (self.is_given_up or link.is_gone):
            for kind, said in link.receive(CHECK_S):
                if kind == wire.TORN_DOWN:
                    self.emit(UserCodeFailed.of("on_worker_stop", unpack_error(said, link.pid)))
        if not self.is_given_up:
            link.bury()
        self._drop(worker)


def _this_worker() -> ProcessWorker:
    worker = threading.current_thread()
    assert isinstance(worker, ProcessWorker)
    return worker
