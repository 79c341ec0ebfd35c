"""Process workers: the pool for handlers that are bound by the CPU.

Each worker is a thread of this process and a child that runs the handler; the thread waits, so it costs no
share of the GIL. Records are copied to the child in batches, and what became of each comes back in order. A
pool must never fork: its children are started afresh, without any client, thread or lock of this process.
Started and stopped by the runtime; see `worker` for what its threads do.
"""

from __future__ import annotations

import marshal
import threading
import time
from typing import TYPE_CHECKING, Any

from ehkafka.events import WorkerProcessDied, WorkersLogNothing
from ehkafka.workers.processes.boot import boot_bytes
from ehkafka.workers.processes.option import PROCESSES_MAX
from ehkafka.workers.processes.pipe import KIND, STOP
from ehkafka.workers.processes.worker import ProcessWorker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ehkafka.events import Event
    from ehkafka.events.history import History
    from ehkafka.workers.exchange import Exchange
    from ehkafka.workers.processes.option import Processes
    from ehkafka.workers.processes.pipe import Frame
    from ehkafka.workers.processes.posting import Posting
    from ehkafka.workers.protocol import PoolOptions

# For children that were killed: their threads need a moment to see it.
LET_GO_S = 1.0
# All children together: the poll thread waits for it.
STACKS_S = 0.1


class ProcessWorkers:
    """Daemon threads with a child each that execute one handler."""

    size_max = PROCESSES_MAX

    def __init__(
        self,
        exchange: Exchange,
        settings: Processes,
        *,
        options: PoolOptions,
        call: Any,
        parts: Mapping[str, Any],
        on_tear_down_error: Callable[[BaseException], None],
        on_stop: Callable[[Any, float | None], None],
        emit: Callable[[Event], None],
        history: History | None = None,
        posting: Posting | None = None,
        deadline_s: float | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`call.bind(…)`, in the child, gives what is called with a message and its attempt.

        `posting` sends what calls send; None where they send nothing. `on_stop` hears what a handler gave to
        `App.stop` there.

        `parts` names what `call` is made of. Raises `ConfigurationError` for what cannot be pickled.
        """
        self.boot = boot_bytes(call, parts=parts, set_up=options.set_up, tear_down=options.tear_down)
        self.exchange = exchange
        self.settings = settings
        self.name = f"ehkafka-{options.name}"
        self.on_failure = options.on_failure
        self.on_death = options.on_death
        self.on_tear_down_error = on_tear_down_error
        self._on_stop = on_stop
        self.history = history
        self.posting = posting
        self.deadline_s = deadline_s
        # The clock of deadlines.
        self.now_s = now_s
        # A key whose next record waits for outputs has one in a batch, too.
        waits = posting is not None and posting.is_before_next
        self.one_record_turns = waits or options.turn_records_max == 1
        self._emit = emit
        # Set once; `closing` cuts waits short, `is_given_up` says that nobody waits for results any more.
        self.closing = threading.Event()
        self.is_given_up = False
        # Changed by `resize` alone, as a whole.
        self._workers = [ProcessWorker(self, number) for number in range(settings.size)]
        self._leaving: list[ProcessWorker] = []
        # Reported once, whoever of the threads is first; reported twice would do no harm.
        self._is_silence_reported = False
        self._numbers = settings.size

    @property
    def size(self) -> int:
        """How many workers there are, those that leave not counted."""
        return len(self._workers)

    def start(self) -> None:
        """Start all children and wait until each is ready. Raises the first one's error."""
        try:
            self._start(self._workers)
        except BaseException:
            self.stop(0.0)
            self.let_go()
            raise

    def _start(self, workers: list[ProcessWorker]) -> None:
        for worker in workers:
            worker.thread.start()
        for worker in workers:
            worker.is_up.wait()
        for worker in workers:
            if worker.start_error is not None:
                raise worker.start_error

    def resize(self, size: int) -> None:
        """Have `size` workers: start new children, or let surplus ones leave after their batch.

        Raises what a new child's start raises; then there are as many as before.
        """
        workers = self._workers
        if size > len(workers):
            more = [ProcessWorker(self, self._numbers + n) for n in range(size - len(workers))]
            self._numbers += len(more)
            try:
                self._start(more)
            except BaseException:
                self._dismiss(more)
                raise
            self._workers = workers + more
        else:
            self._workers = workers[:size]
            self._dismiss(workers[size:])

    def _dismiss(self, workers: list[ProcessWorker]) -> None:
        self._leaving = [worker for worker in self._leaving if worker.thread.is_alive()] + workers
        for worker in workers:
            worker.is_surplus = True
        self.exchange.wake_all()  # whoever sleeps looks whether it is meant
        self.exchange.wake_one()

    def stop(self, timeout_s: float) -> list[str]:
        """Let idle workers leave; return the names of those still busy after `timeout_s` seconds."""
        self.closing.set()
        self.exchange.close()
        return self._join(timeout_s)

    def let_go(self) -> None:
        """Wait for nobody any more: kill the children that are left. Their records stay unfinished."""
        self.is_given_up = True
        for worker in self._all():
            worker.kill()
        self._join(LET_GO_S)

    def _join(self, timeout_s: float) -> list[str]:
        deadline_s = time.monotonic() + timeout_s
        threads = [worker.thread for worker in self._all()]
        for thread in threads:
            if thread.ident is not None:  # the system may have refused to start it
                thread.join(max(0.0, deadline_s - time.monotonic()))
        return [thread.name for thread in threads if thread.is_alive()]

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is one of this pool's."""
        return any(worker.thread is thread for worker in self._all())

    def stacks(self) -> dict[str, str]:
        """Return the Python stacks of the busy children, by their threads' names."""
        ends_s = time.monotonic() + STACKS_S
        found = {worker.thread.name: worker.stack(ends_s) for worker in self._workers}
        return {name: stack for name, stack in found.items() if stack is not None}

    @property
    def pids(self) -> list[int]:
        """The process ids of the children that live now."""
        return [worker.pid for worker in self._workers if worker.pid is not None]

    def takes_aside(self, frame: Frame) -> bool:
        """Tell whether a frame is no word of the child's own but of its user's code, and hand that on.

        That code asks the app to stop, or has sent a kind of values to a topic for the first time.
        """
        if frame.kind == STOP:
            self._on_stop(*marshal.loads(frame.body))  # noqa: S302 - our own child wrote it
        elif frame.kind == KIND and self.posting is not None:
            self.posting.note_kind(*marshal.loads(frame.body))  # noqa: S302 - our own child wrote it
        else:
            return False
        return True

    def on_silent_child(self) -> None:
        """Tell, once, that what handlers log in their processes goes nowhere, while it does here."""
        if not self._is_silence_reported:
            self._is_silence_reported = True
            self._emit(WorkersLogNothing(self.name))

    def on_child_death(self, pid: int, how: str, was_running: bool) -> None:
        """Tell that a child died by itself, whether a record ran in it or not."""
        self._emit(WorkerProcessDied(self.name, pid, how, was_running))

    def _all(self) -> list[ProcessWorker]:
        return [*self._workers, *self._leaving]
