"""A workbench around inboxes: short notation for records, and workers that move step by step.

For tests of the pure core. Single-threaded; time is a field.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ehkafka.lanes.finished import FinishedBefore
from ehkafka.lanes.inbox import KEY, MESSAGE
from ehkafka.lanes.inboxes import Inboxes
from ehkafka.lanes.order import KeyReader
from ehkafka.records import TopicPartition
from tests.kit.simulated.message import WatchedMessage

if TYPE_CHECKING:
    from collections.abc import Container, Hashable

    from ehkafka.lanes.decision import Decision
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.held import Held
    from ehkafka.lanes.inbox import Entry, Inbox
    from ehkafka.lanes.order import NullKey, Scope


class Worker:
    """The consumer of one inbox."""

    def __init__(self, inbox: Inbox) -> None:
        self.inbox = inbox
        # What runs.
        self.entry: Entry | None = None

    @property
    def key(self) -> Hashable:
        """The key of what runs."""
        assert self.entry is not None
        return self.entry[KEY]

    @property
    def offset(self) -> int:
        """The offset of what runs."""
        assert self.entry is not None
        return self.entry[MESSAGE].offset()

    def start(self) -> bool:
        """Show the next record and take it, which ends the one before; False where there is none."""
        inbox = self.inbox
        if not inbox.q:
            self.entry = inbox.head = None
            return False
        inbox.head = self.entry = inbox.q[0]
        inbox.q.popleft()
        return True


class WorkerBench:
    """Drives the inboxes of one handler as poll thread and workers do.

    Records are written as `"a0 b1 -2"`: key, offset; `-` is a record without a key. There are more workers
    than keys, so each key has one of its own.
    """

    def __init__(
        self,
        scope: Scope = "partition",
        null_key: NullKey = "spread",
        *,
        order_by: Any = None,
        workers: int = 40,
    ) -> None:
        self.inboxes = Inboxes(workers, scope)
        self.router = self.inboxes.router
        self.waiting = self.inboxes.waiting
        self.workers = [Worker(inbox) for inbox in self.inboxes.inboxes]
        self.reader = (
            KeyReader(null_key=null_key) if order_by is None else KeyReader(order_by, null_key=null_key)
        )
        self.now_s = 0.0
        self.started: list[str] = []
        self._epochs = 0
        for worker in reversed(self.workers):
            self._rest(worker)

    def assign(self, partition: int = 0, topic: str = "t", **options: Any) -> Epoch:
        """Begin an epoch of a partition."""
        self._epochs += 1
        if (offsets := options.get("finished_before")) is not None:
            options["finished_before"] = FinishedBefore.of(offsets)
        return self.inboxes.assign(TopicPartition(topic, partition), self._epochs, **options)

    def receive(
        self, epoch: Epoch, records: str, *, skipped: Container[int] = (), **options: Any
    ) -> list[WatchedMessage]:
        """Receive the records written down, as one batch, with those at `skipped` offsets too old."""
        messages = [_read(epoch.partition, text, options) for text in records.split()]
        handled = [message for message in messages if message.offset() not in skipped]
        self.inboxes.receive(epoch, messages, self.reader.keys(handled), self.now_s, skipped)
        self.inboxes.take_touched()
        return messages

    def begin(self, count: int = 1) -> list[Worker]:
        """Let up to so many workers start that have a record and run none, oldest record first."""
        ready = sorted(
            (worker for worker in self.workers if worker.entry is None and worker.inbox.q),
            key=lambda worker: worker.inbox.q[0][MESSAGE].offset(),
        )[:count]
        for worker in ready:
            self._start(worker)
        return ready

    def begin_key(self, text: str) -> Worker:
        """Let the worker start that has the first waiting record of a key."""
        for worker in self.workers:
            if worker.entry is None and worker.inbox.q and worker.inbox.q[0][KEY] == text.encode():
                self._start(worker)
                return worker
        raise AssertionError(f"no record of {text} can start")

    def _start(self, worker: Worker) -> bool:
        started = worker.start()
        if started:
            self.started.append(_written(worker.entry))
        return started

    def _rest(self, worker: Worker) -> None:
        if not worker.inbox.listed:
            worker.inbox.listed = True
            self.router.idle.append(worker.inbox)

    def finish(self, worker: Worker, records: int = 1_000) -> None:
        """Run up to so many records of a worker that has started one; then it starts no other."""
        while worker.entry is not None:
            records -= 1
            if records <= 0 or not self._start(worker):
                worker.entry = worker.inbox.head = None
        self._rest(worker)
        self.count()

    def fail(self, worker: Worker, decision: Decision) -> None:
        """Let the handler raise for what runs; the worker then runs nothing."""
        entry, worker.entry = worker.entry, None
        assert entry is not None
        worker.inbox.frozen = True
        self.inboxes.waiting.fail(worker.inbox, ((entry, decision, ()),), self.now_s)
        worker.inbox.frozen = False
        self._rest(worker)
        self.count()

    def count(self) -> None:
        """Count what has finished, as a commit does."""
        self.router.note_all()
        self.inboxes.take_touched()

    def work(self) -> None:
        """Run everything that may run."""
        while workers := self.begin():
            self.finish(workers[0])

    def is_empty(self) -> bool:
        """Tell whether nothing is left of any record."""
        self.count()
        tally = self.inboxes.tally
        counts = (tally.backlog_records, tally.backlog_bytes, tally.parked_records, tally.parked_bytes)
        busy = any(not inbox.is_empty() for inbox in self.inboxes.all_inboxes())
        return not (any(counts) or self.waiting.held or busy)

    def held(self, key: str, epoch: Epoch) -> Held:
        """Return a waiting key."""
        held = self.waiting.find(key.encode(), epoch)
        assert held is not None
        return held


def _read(partition: TopicPartition, text: str, options: dict[str, Any]) -> WatchedMessage:
    key = None if text[0] == "-" else text[0].encode()
    return WatchedMessage(*partition, int(text[1:]), key, **options)


def _written(entry: Entry | None) -> str:
    assert entry is not None
    key, offset = entry[MESSAGE].key(), entry[MESSAGE].offset()
    return f"{'-' if key is None else key.decode()}{offset}"
