"""A consumer without work, while records wait for others and the poll thread rests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ehkafka.headers.size import sizes_of
from ehkafka.lanes.decision import RetryHead
from ehkafka.lanes.inboxes import Inboxes
from ehkafka.records import TopicPartition
from ehkafka.workers.hub import IDLE_CHECK_S, Hub
from tests.kit.simulated.message import SimulatedMessage

if TYPE_CHECKING:
    from ehkafka.lanes.inbox import Inbox


class Bench:
    """A hub with two consumers, both in calls, and a record of a third key behind the first one."""

    def __init__(self) -> None:
        self.now_s = 1.0
        self.hub = Hub(Inboxes(2), lambda: self.now_s)
        self.woken: list[Inbox] = []
        self.hub.wake = self.woken.extend
        self.epoch = self.hub.inboxes.assign(TopicPartition("t", 0), 1)
        self.hub.watch()
        self.receive("a", 0)
        self.receive("b", 1)
        self.first, self.second = self.hub.inboxes.inboxes
        for inbox in (self.first, self.second):
            inbox.head = inbox.q[0]
            inbox.q.popleft()
        # Looked at until both count as late.
        for _ in range(3):
            self.now_s += 0.1
            self.hub.watch()
        self.receive("c", 2)
        self.now_s += 0.1
        self.hub.watch()
        self.behind = self.first if self.first.q else self.second
        self.other = self.second if self.behind is self.first else self.first
        self.woken.clear()

    def receive(self, key: str, offset: int) -> None:
        """Receive one record."""
        messages: list[Any] = [SimulatedMessage("t", 0, offset, key.encode(), b"")]
        self.hub.receive([(self.epoch, messages, [key.encode()], (), sizes_of(messages))])

    def end_other(self) -> None:
        """Let the consumer end its call that has nothing waiting."""
        self.other.head = None
        self.hub.note_idle(self.other)


def test_it_asks_for_a_look_itself() -> None:
    """The poll thread may rest for 50 ms where nothing moves."""
    bench = Bench()
    assert len(bench.behind.q) == 1
    bench.now_s += 2 * IDLE_CHECK_S
    bench.end_other()
    assert not bench.behind.q
    assert len(bench.other.q) == 1
    assert bench.other in bench.woken


def test_more_of_a_key_in_slow_start_goes_as_soon_as_its_consumer_has_nothing() -> None:
    """Without the poll thread, which looks again soon as long as a key starts slowly."""
    now_s = 1.0
    hub = Hub(Inboxes(1), lambda: now_s)
    epoch = hub.inboxes.assign(TopicPartition("t", 0), 1)
    messages: list[Any] = [SimulatedMessage("t", 0, offset, b"a", b"") for offset in range(9)]
    hub.receive([(epoch, messages, [b"a"] * 9, (), sizes_of(messages))])
    [inbox] = hub.inboxes.inboxes
    inbox.head = entry = inbox.q[0]
    inbox.q.popleft()
    hub.fail(inbox, entry, RetryHead(0.0, "again"))
    inbox.head = None
    assert hub.watch()
    assert len(inbox.q) == 1
    inbox.head = inbox.q[0]
    inbox.q.popleft()
    now_s += 0.001
    assert hub.watch()
    assert not hub.is_at_rest((), letters=True)
    assert not inbox.q
    inbox.head = None
    hub.note_idle(inbox)
    assert len(inbox.q) == 2
