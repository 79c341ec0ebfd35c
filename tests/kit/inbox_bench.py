"""A workbench around the inboxes of one handler: short notation for records, and consumers that go by steps.

For tests of the pure core. Single-threaded; time is a field.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from ehkafka.lanes.finished import FinishedBefore
from ehkafka.lanes.inbox import KEY, MESSAGE
from ehkafka.lanes.inboxes import Inboxes
from ehkafka.lanes.order import KeyReader
from ehkafka.records import TopicPartition
from tests.kit.simulated.message import WatchedMessage

if TYPE_CHECKING:
    from collections.abc import Container

    from ehkafka.lanes.decision import Answer, Decision
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.held import Held
    from ehkafka.lanes.inbox import Entry, Inbox
    from ehkafka.lanes.order import NullKey, Scope


class Call:
    """The consumer of one inbox, in steps, and the record that it runs."""

    def __init__(self, inbox: Inbox) -> None:
        self.inbox = inbox
        # What runs, or ran last.
        self.entry: Entry

    @property
    def key(self) -> Any:
        """The key of what runs."""
        return self.entry[KEY]

    @property
    def offset(self) -> int:
        """The offset of what runs."""
        return self.entry[MESSAGE].offset()

    @property
    def text(self) -> str:
        """What runs as it is written down."""
        return written(self.entry)

    def start(self) -> bool:
        """Show the next record and take it, which ends the one before; tell whether there is one."""
        inbox = self.inbox
        if not inbox.q:
            inbox.head = None
            return False
        inbox.head = self.entry = inbox.q[0]
        inbox.q.popleft()
        return True


class InboxBench:
    """Drives inboxes as poll thread and consumers do.

    Records are written as `"a0 b1 -2"`: key, offset; `-` is a record without a key.
    """

    def __init__(
        self,
        scope: Scope = "partition",
        null_key: NullKey = "spread",
        *,
        consumers: int = 40,
        order_by: Any = None,
    ) -> None:
        self.inboxes = Inboxes(consumers, scope)
        self.router, self.waiting = self.inboxes.router, self.inboxes.waiting
        self.reader = (
            KeyReader(null_key=null_key) if order_by is None else KeyReader(order_by, null_key=null_key)
        )
        self.now_s = 0.0
        self.started: list[str] = []
        self._epochs = 0
        for inbox in reversed(self.inboxes.inboxes):
            self._note_idle(inbox)

    # The poll thread.

    def assign(self, partition: int = 0, topic: str = "t", **options: Any) -> Epoch:
        """Begin an epoch of a partition."""
        self._epochs += 1
        if not isinstance(offsets := options.get("finished_before"), FinishedBefore | None):
            options["finished_before"] = FinishedBefore((one, one + 1) for one in sorted(offsets))
        return self.inboxes.assign(TopicPartition(topic, partition), self._epochs, **options)

    def receive(
        self, epoch: Epoch, records: str, *, skipped: Container[int] = (), **options: Any
    ) -> list[WatchedMessage]:
        """Receive the records written down, as one batch, with those at `skipped` offsets too old."""
        messages = [read(epoch.partition, text, options) for text in records.split()]
        handled = [message for message in messages if message.offset() not in skipped]
        self.inboxes.receive(epoch, messages, self.reader.keys(handled), self.now_s, skipped)
        self.inboxes.take_touched()
        return messages

    def check(self, now_s: float | None = None) -> None:
        """Let time pass, and look: retries go, and what waits behind a record that does not move."""
        self.now_s = self.now_s if now_s is None else now_s
        self.inboxes.check(self.now_s)
        self.inboxes.take_touched()

    def drain(self, *epochs: Epoch, below_started: bool = True) -> bool:
        """Cut epochs short; with `below_started` there is time for what lies below the highest started."""
        return self.inboxes.ending.drain(epochs, (lambda _work: True) if below_started else None)

    def answer(self, answer: Answer) -> None:
        """Answer the ticket that was asked for first."""
        self.inboxes.waiting.answer(self.waiting.outbox.popleft(), answer, self.now_s)
        self.inboxes.take_touched()

    # Consumers.

    def begin(self, key: str | None = None) -> Call | None:
        """Start a record that waits for a free consumer, of a key or of any: the one of the lowest offset."""
        free = [inbox for inbox in self.inboxes.all_inboxes() if inbox.head is None and inbox.q]
        if key is not None:
            free = [inbox for inbox in free if inbox.q[0][KEY] == key.encode()]
        if not free:
            return None
        call = Call(min(free, key=lambda inbox: inbox.q[0][MESSAGE].offset()))
        self._start(call)
        return call

    def call(self, key: str | None = None) -> Call:
        """Do the same where there must be one."""
        call = self.begin(key)
        assert call is not None, f"nothing of {key or 'any key'} waits for a free consumer"
        return call

    def _start(self, call: Call) -> bool:
        is_started = call.start()
        if is_started:
            self.started.append(call.text)
        return is_started

    def finish(self, call: Call, records: int = 1) -> None:
        """Let a call end well, and as many records altogether that its consumer has."""
        for _ in range(records - 1):
            if not self._start(call):
                break
        call.inbox.head = None
        self._note_idle(call.inbox)
        self.count()

    def _note_idle(self, inbox: Inbox) -> None:
        if not inbox.listed:
            inbox.listed = True
            self.router.idle.append(inbox)

    def fail(self, call: Call, decision: Decision) -> None:
        """Let a call fail; its consumer then runs nothing."""
        self.inboxes.waiting.fail(call.inbox, ((call.entry, decision, ()),), self.now_s)
        self.inboxes.take_touched()

    def count(self) -> None:
        """Count what has finished, as a commit does."""
        self.router.note_all()
        self.inboxes.take_touched()

    def work(self) -> None:
        """Run everything that may run."""
        while (call := self.begin()) is not None:
            self.finish(call)

    # What there is.

    def held(self, key: str, epoch: Epoch) -> Held:
        """Return a key that waits."""
        held = self.waiting.find(key.encode(), epoch)
        assert held is not None, f"{key} does not wait"
        return held

    def is_empty(self) -> bool:
        """Tell whether nothing is left of any record."""
        self.count()
        tally = self.inboxes.tally
        counts = (tally.backlog_records, tally.backlog_bytes, tally.parked_records, tally.parked_bytes)
        busy = any(not inbox.is_empty() for inbox in self.inboxes.all_inboxes())
        return not (any(counts) or self.waiting.held or busy)


def at_once(bench: InboxBench, calls_max: int = 1_000) -> list[Call]:
    """Start so many calls at once, or as many as may be."""
    return list(islice(iter(bench.begin, None), calls_max))


def read(partition: TopicPartition, text: str, options: dict[str, Any]) -> WatchedMessage:
    """Return the record that is written down."""
    key = None if text[0] == "-" else text[0].encode()
    return WatchedMessage(*partition, int(text[1:]), key, **options)


def written(entry: Entry) -> str:
    """Write a record down."""
    message: Any = entry[MESSAGE]
    key = message.key()
    return f"{'-' if key is None else key.decode()}{message.offset()}"
