"""Back-pressure over real inboxes: when records are withheld, and what is paused."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.events import PartitionPaused, PartitionResumed
from ehkafka.headers.size import sizes_of
from ehkafka.intake.backpressure import COMMIT_TOUCH_S, TOUCH_S, Backpressure, records_uncollected
from ehkafka.intake.flow import FlowControl, FlowLimits
from ehkafka.intake.owned import OwnedPartition, OwnedPartitions
from ehkafka.lanes.decision import AwaitHead
from ehkafka.lanes.inbox import MESSAGE
from ehkafka.lanes.inboxes import Inboxes
from ehkafka.records import TopicPartition
from ehkafka.workers.hub import Hub
from tests.kit.simulated.message import SimulatedMessage

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from ehkafka.lanes.inbox import Inbox


class Client:
    """Notes what is paused and resumed."""

    def __init__(self) -> None:
        self.paused: list[int] = []
        self.resumed: list[int] = []

    def pause(self, partitions: list[Any]) -> None:
        """Note a pause."""
        self.paused += [each.partition for each in partitions]

    def resume(self, partitions: list[Any]) -> None:
        """Note a resume."""
        self.resumed += [each.partition for each in partitions]

    def position(self, partitions: list[Any]) -> list[Any]:
        """Return where each stands: where it was asked."""
        return partitions


def _keys(messages: Sequence[Any]) -> list[Hashable]:
    return [message.key() for message in messages]


class Bench:
    """Handlers over one client, with a clock that is moved by hand. Topics are named after their handler."""

    def __init__(self, *names: str, partitions: int = 4, workers: int = 2, records_max: int = 1_000) -> None:
        self.now_s = 100.0
        self.events: list[object] = []
        self.client: Any = Client()
        flow = FlowControl(FlowLimits(records_max, consume_records_max=100))
        flow.note_batch(2_000_000)
        for _ in range(32):
            flow.note_batch(10)
        self.owned = OwnedPartitions()
        self.context: Any = SimpleNamespace(
            flow=flow,
            owned=self.owned,
            ledger=SimpleNamespace(in_flight=None),
            delivery=None,
            clock=lambda: self.now_s,
            brokers=SimpleNamespace(contact=SimpleNamespace(now_s=0.0)),
            emit=self.events.append,
        )
        self.routes: dict[str, Any] = {}
        for name in names or ("a",):
            hub = Hub(Inboxes(workers, read_keys=_keys), lambda: self.now_s)
            route: Any = SimpleNamespace(name=name, hub=hub, workers=SimpleNamespace(size=workers))
            hub.watch()
            self.routes[name] = route
            for number in range(partitions):
                partition = TopicPartition(name, number)
                self.owned[partition] = OwnedPartition(route, hub.inboxes.assign(partition, 1))
        self.pressure = Backpressure(self.context, list(self.routes.values()), lambda _partition: False)

    def receive(
        self, records: int, partition: int = 0, name: str = "a", keys: int = 1, *, unread: bool = False
    ) -> None:
        """Give a partition records of so many keys, which are read only when they are needed if `unread`."""
        route, epoch = self.owned[TopicPartition(name, partition)]
        begin = epoch.tally.received_records
        messages: list[Any] = [
            SimulatedMessage(name, partition, begin + number, b"%d" % ((begin + number) % keys))
            for number in range(records)
        ]
        keys_read = None if unread else _keys(messages)
        route.hub.receive([(epoch, messages, keys_read, (), sizes_of(messages))])

    def run(self, records: int, name: str = "a") -> None:
        """Let consumers that are free end so many records."""
        for _ in range(records):
            inbox = self.begin(name)
            assert inbox is not None
            inbox.head = None
        with self.routes[name].hub.locked():
            pass

    def begin(self, name: str = "a") -> Inbox | None:
        """Let a free consumer begin a record, and return its inbox; None where none has any."""
        hub = self.routes[name].hub
        for _ in range(2):
            for inbox in hub.inboxes.inboxes:
                if inbox.head is None and inbox.q:
                    inbox.head = inbox.q[0]
                    inbox.q.popleft()
                    return inbox
            self.now_s += 0.005
            hub.watch()
        return None

    def lend_all(self, name: str = "a") -> list[Inbox]:
        """Let every consumer that has something begin a record that does not end; return their inboxes."""
        return list(iter(lambda: self.begin(name), None))

    def wanted(self, after_s: float = 0.003) -> int:
        """Return what the next turn takes."""
        self.now_s += after_s
        for route in self.routes.values():
            route.hub.watch()
        return self.pressure.wanted(self.client)


@pytest.fixture
def bench() -> Bench:
    """One handler with two workers, over four partitions."""
    return Bench()


def test_an_idle_handler_gets_what_it_should_have_at_hand(bench: Bench) -> None:
    """Twice what it wants, in batches."""
    assert bench.wanted() == 100


def test_records_are_withheld_while_the_handler_has_enough(bench: Bench) -> None:
    """Nothing is paused for that, and it goes on as soon as there is less."""
    bench.receive(130, keys=130)
    assert bench.wanted() == 0
    bench.run(32)
    assert bench.wanted() > 0
    assert not bench.client.paused


def test_something_for_all_workers_counts_as_well_as_records(bench: Bench) -> None:
    """A thousand records of one key keep one worker busy: others want theirs."""
    bench.receive(300, keys=1)
    bench.wanted(after_s=0.005)
    assert bench.wanted(after_s=0.005) == 2  # for the other worker


def test_what_is_stuck_is_paused_at_half_and_the_others_get_the_rest(bench: Bench) -> None:
    """One key holds half of the backlog and does not move."""
    bench.receive(500, partition=1)
    bench.lend_all()
    bench.wanted()
    assert bench.wanted(after_s=0.02) > 0
    assert bench.client.paused == [1]
    (paused,) = bench.events
    assert isinstance(paused, PartitionPaused)
    assert paused.backlog_records == 500
    assert paused.largest_key == "0"


def test_the_largest_key_is_named_though_keys_are_unread() -> None:
    """One worker runs all, so nothing else has asked for them."""
    bench = Bench(workers=1)
    bench.receive(400, partition=1, keys=1, unread=True)
    bench.receive(100, partition=1, keys=100, unread=True)
    bench.lend_all()
    bench.wanted()
    bench.wanted(after_s=0.02)
    (paused,) = bench.events
    assert paused.largest_key == "0"


def test_what_waits_for_an_answer_is_stuck_however_fast_other_records_end(bench: Bench) -> None:
    """Letters without an answer fill the backlog, though most records of the partition end at once."""
    for _ in range(26):
        bench.receive(100, partition=1, keys=1_000)
        run_with_letters(bench)
        bench.wanted(after_s=0.01)
    assert bench.routes["a"].hub.tally.backlog_records >= 500
    assert bench.wanted(after_s=0.11) > 0
    assert bench.client.paused == [1]


def test_one_partitions_letters_leave_room_for_those_that_had_no_turn(bench: Bench) -> None:
    """They are counted as the backlog grows: a look each 3 ms could fill it before the next count is due."""
    taken = 500
    for partition in (1, 2):
        while partition not in bench.client.paused:
            bench.receive(taken, partition=partition, keys=50)
            run_with_letters(bench)
            taken = bench.wanted()
    # The part of one of three in the half that was left is 83 records.
    assert bench.owned[TopicPartition("a", 2)].epoch.tally.backlog_records <= 2 * 83


def run_with_letters(bench: Bench) -> None:
    """Let every record end that may, but each fifth, whose letter is never acknowledged."""
    hub = bench.routes["a"].hub
    while (inbox := bench.begin()) is not None:
        entry = inbox.head
        assert isinstance(entry, tuple)
        if entry[MESSAGE].offset() % 5 == 0:
            hub.fail(inbox, entry, AwaitHead("its dead letter is not acknowledged yet", lambda _ticket: None))
        else:
            inbox.head = None


def test_a_resumed_partition_is_reported(bench: Bench) -> None:
    """Once it has worked off what it held."""
    bench.receive(500, partition=1)
    (inbox,) = bench.lend_all()
    bench.wanted()
    bench.wanted(after_s=0.02)
    assert bench.client.paused == [1]
    inbox.head = None
    bench.run(373)
    bench.pressure.resume(bench.client)
    assert not bench.client.resumed
    bench.run(1)
    bench.pressure.resume(bench.client)
    assert bench.client.resumed == [1]
    assert isinstance(bench.events[-1], PartitionResumed)


def test_a_busy_handler_gives_way_to_an_idle_one() -> None:
    """All that the busy one holds counts, though it moves: its partitions are paused for the other's."""
    bench = Bench("a", "b")
    bench.receive(200, name="a", keys=200)
    assert bench.wanted() > 0  # for b
    bench.receive(300, name="a", partition=1, keys=200)
    assert bench.wanted() > 0
    assert bench.client.paused == [0, 1]


def test_the_client_is_called_four_times_a_second_and_more_often_for_a_commit(bench: Bench) -> None:
    """Rebalances and answers come inside such a call alone."""
    bench.pressure.touched()
    assert bench.pressure.touch_due_s() == bench.now_s + TOUCH_S
    bench.context.ledger.in_flight = {}
    assert bench.pressure.touch_due_s() == bench.now_s + COMMIT_TOUCH_S


def test_a_full_backlog_is_paused_before_the_client_is_called(bench: Bench) -> None:
    """A call that only keeps the client in touch may bring a record: there must be room for it."""
    for partition in range(4):
        bench.receive(249, partition=partition)
    bench.pressure.make_room(bench.client)
    assert not bench.client.paused
    bench.receive(4)
    bench.pressure.make_room(bench.client)
    assert bench.client.paused == [0, 1, 2, 3]
    bench.pressure.resume(bench.client)
    assert not bench.client.resumed


@pytest.mark.parametrize(
    ("threshold", "wanted", "records"),
    [(700, 1_000, 630), (700, 200, 200), (2_000, 1_000, 1_000), (100, 1_000, 1_000), (0, 1_000, 1_000)],
)
def test_as_many_are_taken_as_the_collector_lets_pass(
    monkeypatch: pytest.MonkeyPatch, threshold: int, wanted: int, records: int
) -> None:
    """No more than asked for; all where it looks all the time, or is off."""
    monkeypatch.setattr(gc, "get_threshold", lambda: (threshold, 10, 10))
    assert records_uncollected(wanted) == records
    monkeypatch.setattr(gc, "isenabled", lambda: False)
    assert records_uncollected(wanted) == wanted
