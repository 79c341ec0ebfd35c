"""What one task's handlers send, by a sender that goes from task to task of its worker process.

A task reports its rows only when all of its outputs are acknowledged. One that fails takes back what is left,
before Spark hears of it. A new client costs a connection, with TLS and a sign-in, and a question for its id:
more than a short task. So a sender that has nothing left is kept, with the thread that serves its client.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from ehkafka.outputs.one_producer import ID_S
from ehkafka.run.at_least_once import output_sender
from ehkafka.run.sending import make_delivery
from ehkafka.spark.kept import KeptClients

if TYPE_CHECKING:
    from ehkafka.events import Event
    from ehkafka.outputs.sender import OutputSender
    from ehkafka.run.assembly import Assembly

PURGED_S: Final = 6.0
"""What a failed task waits for what is on its way: the last answers, and the purge."""
# Events between two tasks; the next one reports them.
_UNREPORTED_MAX: Final = 20


class KeptSender:
    """A sender that goes from task to task, and the one that hears of it: none between two tasks."""

    def __init__(self, task: Assembly) -> None:
        # Kept, too: else its `id` could be another's.
        self._endpoint = task.app.endpoint
        self._task: Assembly | None = None
        self._unreported: deque[Event] = deque(maxlen=_UNREPORTED_MAX)
        self.sender: OutputSender = output_sender(task.app, self.report, self._died)

    def lend_to(self, task: Assembly | None) -> None:
        """Let a task hear of it, also of what was reported since the last one; None: no task has it."""
        self._task = task
        while task is not None and self._unreported:
            task.bus.emit(self._unreported.popleft())

    def report(self, event: Event) -> None:
        """Pass an event on. On the sender's thread, or the task's while that does not run."""
        if (task := self._task) is None:
            self._unreported.append(event)
        else:
            task.bus.emit(event)

    def end(self) -> None:
        """End the sender."""
        self.sender.stop(0.0)

    def _died(self, error: BaseException) -> None:
        if (task := self._task) is not None:
            task.worker_died(error)


KEPT: Final[KeptClients[KeptSender]] = KeptClients(KeptSender.end)


class TaskOutputs:
    """Outputs and letters of one task. On its main thread; `delivery` is None where it can have none."""

    def __init__(self, task: Assembly) -> None:
        """Raise `ConfigurationError`. Opens nothing."""
        self._task = task
        self._kept: KeptSender | None = None
        # All is acknowledged, and no handler can send any more: the sender may serve another task.
        self.are_safe = False
        self.delivery = make_delivery(task, self._lend)

    @property
    def _key(self) -> object:
        """What a client hangs on: endpoint, properties; letters alone need no id."""
        app = self._task.app
        return id(app.endpoint), frozenset(app.settings.producer.items()), bool(app.output_topics)

    def _lend(self) -> OutputSender:
        task = self._task
        kept = KEPT.take(self._key, lambda: KeptSender(task), is_current=lambda one: one.sender.is_running)
        kept.lend_to(task)
        self._kept = kept
        return kept.sender

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
            self._kept.lend_to(None)
            if self.are_safe and not self.count():
                KEPT.give_back(self._key, self._kept)
            else:
                self._kept.end()

    @property
    def still_running(self) -> tuple[str, ...]:
        """What could not be ended, after `stop`: its process must take no other task."""
        is_left = self._kept is not None and not self.are_safe and self._kept.sender.is_running
        return ("ehkafka-outputs",) if is_left else ()
