"""What one task's handlers send, by a sender that goes from task to task of its worker process.

A task reports its rows only when all of its outputs are acknowledged. One that fails takes back what is left,
before Spark hears of it. A new client costs a connection, with TLS and a sign-in,
and a question for its id: more than a short task. So a sender that has nothing left is kept, with the thread
that serves its client, for as long as Spark keeps an idle worker. Never shared over a fork.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from typing import TYPE_CHECKING, Final

from ehkafka.outputs.one_producer import ID_S
from ehkafka.run.at_least_once import output_sender
from ehkafka.run.sending import make_delivery

if TYPE_CHECKING:
    from ehkafka.events import Event
    from ehkafka.outputs.sender import OutputSender
    from ehkafka.run.assembly import Assembly

PURGED_S: Final = 6.0
"""What a failed task waits for what is on its way: the last answers, and the purge."""
UNUSED_S: Final = 60.0
# Events between two tasks; the next one reports them.
_UNREPORTED_MAX: Final = 20


# Between two tasks, by `_place`; under the lock.
_KEPT: dict[object, KeptSender] = {}
_LOCK = threading.Lock()


class KeptSender:
    """A sender that goes from task to task, and the one that hears of it: none between two tasks."""

    def __init__(self, task: Assembly) -> None:
        self._place = _place(task)
        # Else its `id` could be another's.
        self._endpoint = task.app.endpoint
        self._task: Assembly | None = None
        self._unreported: deque[Event] = deque(maxlen=_UNREPORTED_MAX)
        self._closes = threading.Timer(UNUSED_S, self._close_unused)
        self.sender: OutputSender = output_sender(task.app, self.report, self._died)

    def lend_to(self, task: Assembly) -> None:
        """Let a task hear of it, also of what was reported since the last one."""
        self._closes.cancel()
        self._task = task
        while self._unreported:
            task.bus.emit(self._unreported.popleft())

    def give_back(self, *, is_spotless: bool) -> None:
        """Wait for the next task; end where it is not spotless, or there is one that waits."""
        self._task = None
        with _LOCK:
            is_kept = is_spotless and _KEPT.setdefault(self._place, self) is self
        if not is_kept:
            self.sender.stop(0.0)
            return
        self._closes = threading.Timer(UNUSED_S, self._close_unused)
        self._closes.daemon = True
        self._closes.start()

    def _close_unused(self) -> None:
        with _LOCK:
            if _KEPT.get(self._place) is not self:
                return  # a task has it
            del _KEPT[self._place]
        self.sender.stop(0.0)

    def report(self, event: Event) -> None:
        """Pass an event on. On the sender's thread, or the task's while that does not run."""
        if (task := self._task) is None:
            self._unreported.append(event)
        else:
            task.bus.emit(event)

    def _died(self, error: BaseException) -> None:
        if (task := self._task) is not None:
            task.worker_died(error)


def _place(task: Assembly) -> object:
    """Return what a client hangs on: process, endpoint, properties; letters alone need no id."""
    app = task.app
    return os.getpid(), id(app.endpoint), frozenset(app.settings.producer.items()), bool(app.output_topics)


class TaskOutputs:
    """Outputs and letters of one task. On its main thread; `delivery` is None where it can have none."""

    def __init__(self, task: Assembly) -> None:
        """Raise `ConfigurationError`. Opens nothing."""
        self._task = task
        self._kept: KeptSender | None = None
        # All is acknowledged, and no handler can send any more: the sender may serve another task.
        self.are_safe = False
        self.delivery = make_delivery(task, self._lend)

    def _lend(self) -> OutputSender:
        with _LOCK:
            kept = _KEPT.pop(_place(self._task), None)
        self._kept = kept if kept is not None and kept.sender.is_running else KeptSender(self._task)
        self._kept.lend_to(self._task)
        return self._kept.sender

    def start(self) -> None:
        """Open the client, unless it is, and start sending. Raises `EhkafkaError`."""
        if self._kept is not None and not self._kept.sender.is_running:
            # Each batch's tasks begin here: they do not wait for an id that letters seldom need.
            self._kept.sender.start(ID_S if self._task.app.output_topics else 0.0)

    def count(self) -> int:
        """Return how many are not acknowledged."""
        return 0 if self.delivery is None else self.delivery.outputs.count()

    def end(self) -> None:
        """Take back what is left of epochs that have ended; bounded."""
        if self._kept is not None:
            self._kept.sender.end(PURGED_S)

    def stop(self) -> None:
        """Give the sender back, or end it."""
        if self._kept is not None:
            self._kept.give_back(is_spotless=self.are_safe and not self.count())

    @property
    def still_running(self) -> tuple[str, ...]:
        """What could not be ended, after `stop`: its process must take no other task."""
        is_left = self._kept is not None and not self.are_safe and self._kept.sender.is_running
        return ("ehkafka-outputs",) if is_left else ()
