"""Process workers: the pool for handlers that are bound by the CPU.

Each worker is a thread of this process and a child that runs the handler; the thread waits, so it costs no
share of the GIL. Records are copied to the child in batches, and what became of each comes back in order. A
pool must never fork: its children are started afresh, without any client, thread or lock of this process.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ehkafka.events import WorkersLogNothing
from ehkafka.workers.processes.boot import boot_bytes
from ehkafka.workers.processes.inbox import ChildInbox
from ehkafka.workers.processes.option import PROCESSES_MAX
from ehkafka.workers.processes.wire import KIND, STOP
from ehkafka.workers.processes.worker import ProcessWorker
from ehkafka.workers.thread_pool import ThreadPool

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ehkafka.events import Event
    from ehkafka.lanes.inbox import Inbox
    from ehkafka.outputs.outlet import Outlet
    from ehkafka.workers.hub import Hub
    from ehkafka.workers.processes.link import ProcessLink
    from ehkafka.workers.processes.option import Processes
    from ehkafka.workers.protocol import Invoke, PoolOptions
    from ehkafka.workers.thread_pool import Worker
    from ehkafka.workers.within import Around

# For children that were killed: their threads need a moment to see it.
LET_GO_S = 1.0
# All children together: the poll thread waits for it.
STACKS_S = 0.1


class ProcessWorkers(ThreadPool):
    """Daemon threads with a child each that execute one handler."""

    size_max = PROCESSES_MAX

    def __init__(
        self,
        hub: Hub,
        settings: Processes,
        *,
        options: PoolOptions,
        call: Any,
        parts: Mapping[str, Any],
        on_stop: Callable[[Any, float | None], None],
        emit: Callable[[Event], None],
        around: Callable[[Invoke], Invoke] = lambda invoke: invoke,
        history: Around | None = None,
        outlet: Outlet | None = None,
        deadline_s: float | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`call.bind(…)`, in the child, gives what is called with a message and its attempt.

        `history` goes around each call; `around` around what takes the end of one that has sent or raised.
        `outlet` takes what calls send; None where they send nothing. `on_stop` hears what a
        handler gave to `App.stop` there, `now_s` is the clock of deadlines.

        `parts` names what `call` is made of. Raises `ConfigurationError` for what cannot be pickled.
        """
        self.boot = boot_bytes(call, parts=parts, set_up=options.set_up, tear_down=options.tear_down)
        self.hub = hub
        self.settings = settings
        self.options = options
        self.name = f"ehkafka-{options.name}"
        self._on_stop = on_stop
        self.around = around
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
        set_up, tear_down = (lambda: _this_worker().launch()), (lambda: _this_worker().end())
        super().__init__(hub, replace(options, set_up=set_up, tear_down=tear_down))

    def let_go(self) -> None:
        """Kill the children that are left, for which nothing waits. Their records stay unfinished."""
        self.is_given_up = True
        for _, link in self._links():
            link.kill()
        self.stop(LET_GO_S)

    def stacks(self) -> dict[str, str]:
        """Return the Python stacks of the busy children, by their threads' names."""
        until_s = time.monotonic() + STACKS_S
        busy = [(one.name, link) for one, link in self._links() if one.inbox is not None and one.inbox.head]
        return {name: link.stack(until_s) for name, link in busy}

    @property
    def pids(self) -> list[int]:
        """The process ids of the children that live now, but for those of workers that are to leave."""
        return [link.pid for worker, link in self._links() if worker.inbox is None or not worker.inbox.leaves]

    def _links(self) -> list[tuple[Worker, ProcessLink]]:
        links = [(worker, worker.link) for worker in self._workers if isinstance(worker, ProcessWorker)]
        return [(worker, link) for worker, link in links if link is not None]

    # -- the workers' threads --------------------------------------------------------------------------

    def _new_workers(self, number: int) -> list[Worker]:
        names = (f"{self.name}-{next(self._numbers)}" for _ in range(number))
        return [ProcessWorker(self, self._main, name) for name in names]

    def _consume(self, inbox: Inbox) -> None:
        worker = _this_worker()
        assert isinstance(inbox, ChildInbox)
        inbox.pace = self.hub.pace
        try:
            while not self.is_given_up:
                if worker.run_next(inbox):
                    continue
                if not self._rest(inbox):
                    return
        except BaseException:  # the child cannot be started again, or a defect of the engine
            worker.drop()
            raise

    # -- what children tell apart from their records ---------------------------------------------------

    def take_aside(self, kind: str, *values: Any) -> bool:
        """Tell whether a word is no word of the child's own but of its user's code, and hand that on.

        That code asks the app to stop, or has sent a kind of values to a topic for the first time.
        """
        if kind == STOP:
            self._on_stop(*values)
        elif kind == KIND and self.outlet is not None:
            self.outlet.note_kind(*values)
        else:
            return False
        return True

    def on_silent_child(self) -> None:
        """Tell, once, that what handlers log in their processes goes nowhere, while it does here."""
        if not self._is_silence_reported:
            self._is_silence_reported = True
            self.emit(WorkersLogNothing(self.name))


def _this_worker() -> ProcessWorker:
    worker = threading.current_thread()
    assert isinstance(worker, ProcessWorker)
    return worker
