"""Collecting with threads: who waits, who is woken and how often, and that nothing is left lying."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections import Counter, deque
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.lanes.dispatcher import Dispatcher
from ehkafka.lanes.express_mode import ExpressMode
from ehkafka.lanes.order import KeyReader
from ehkafka.records import TopicPartition
from ehkafka.workers.batches.exchange import BatchExchange
from ehkafka.workers.batches.plan import BatchPlan
from ehkafka.workers.batches.share import BatchLimits, Share
from ehkafka.workers.batches.workers import BatchWorkers
from ehkafka.workers.protocol import PoolOptions
from tests.kit.simulated.message import SimulatedMessage
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ehkafka.lanes.assignment import Assignment
    from ehkafka.workers.batches.share import Part

PARTITION = TopicPartition("t", 0)
LIMIT_S = 30.0
FOR_EVER_S = 3600.0


class Batches:
    """Batch workers on one dispatcher; the handler keeps what it was given and may be blocked."""

    def __init__(self, workers: int = 1, *, slices: bool = False, **limits: Any) -> None:
        """With `slices`, batches take chunks, whatever records cost."""
        limits = {"records_max": 10, "bytes_max": None, "wait_s_max": FOR_EVER_S, **limits}
        limits.setdefault("records_min", limits["records_max"])
        self.dispatcher = Dispatcher()
        self.exchange = BatchExchange(self.dispatcher, time.monotonic, BatchLimits(**limits))
        if slices:
            self.exchange._mode = ExpressMode(float("inf"))
            self.exchange._mode.on = True
            self.exchange.use_slices(KeyReader(), limits["records_max"])
        # Of batches that run: their keys. More than one of a key at once is noted.
        self.keys: Counter[bytes | None] = Counter()
        self.overlaps: deque[bytes | None] = deque()
        self.handled: deque[list[int]] = deque()
        self.died: list[BaseException] = []
        self.gate = threading.Event()
        self.gate.set()
        self.work: Callable[[], object] | None = None
        self.running = 0
        self.records = 0
        self._count = threading.Lock()
        self.assignment = self.assign()
        self.workers = BatchWorkers(
            self.exchange,
            PoolOptions(name="store", size=workers, on_failure=self._refuse, on_death=self.died.append),
            call=self,
            emit=lambda _event: None,
        )
        self.workers.start()

    def assign(self) -> Assignment:
        """Begin the epoch."""
        with self.exchange.locked() as dispatcher:
            return dispatcher.assign(PARTITION, 1)

    def receive(self, *offsets: int, keys: int = 7) -> None:
        """Hand over records, without waking anybody."""
        batch = [SimulatedMessage("t", 0, offset, b"%d" % (offset % keys)) for offset in offsets]
        with self.exchange.locked() as dispatcher:
            keys = None if dispatcher.takes_unread(self.assignment) else [m.key() for m in batch]
            dispatcher.receive(self.assignment, batch, keys, time.monotonic())

    def wait_for(self, records: int, *, for_s: float = LIMIT_S) -> bool:
        """Wait until so many records were handled; False when they were not."""
        ends_s = time.monotonic() + for_s
        while self.records < records:
            if time.monotonic() > ends_s:
                return False
            time.sleep(1e-4)
        return True

    def close(self) -> None:
        """Let the workers leave."""
        self.gate.set()
        assert self.workers.stop(LIMIT_S) == []
        assert self.died == []

    def __call__(self, parts: Sequence[Part]) -> dict[int, Any]:
        """Handle a batch."""
        keys = {message.key() for part in parts for message in part.messages}
        with self._count:
            self.running += 1
            self.overlaps.extend(key for key in keys if self.keys[key])
            self.keys.update(keys)
        assert self.gate.wait(LIMIT_S)
        if self.work is not None:
            self.work()
        self.handled.append([message.offset() for part in parts for message in part.messages])
        with self._count:
            self.running -= 1
            self.keys.subtract(keys)
            self.records += sum(len(part.messages) for part in parts)
        return {}

    def note(self, parts: Sequence[Part], results: dict[int, Any]) -> None:
        """Finish all."""
        assert results == {}
        for part in parts:
            if isinstance(part, Share):
                part.ended_records = len(part.messages)

    def raised(self, shares: Sequence[Share]) -> None:
        """Nothing raises."""
        raise AssertionError(f"nothing fails here: {shares}")

    def _refuse(self, lane: Any, error: BaseException) -> Any:
        raise AssertionError(f"nothing fails here: {lane} {error!r}")


@pytest.fixture
def batches() -> Iterator[Callable[..., Batches]]:
    """Make pools that are closed when the test ends."""
    made: list[Batches] = []

    def make(*arguments: Any, **limits: Any) -> Batches:
        made.append(Batches(*arguments, **limits))
        return made[-1]

    yield make
    for one in made:
        one.close()


def waits(pool: Batches) -> bool:
    """Whether the collector is asleep."""
    return pool.exchange._waiting is not None


@pytest.mark.parametrize("workers", [1, 4])
def test_single_records_that_find_the_collector_falling_asleep_are_handled(
    batches: Callable[..., Batches], workers: int
) -> None:
    """5000 records, one wake each and no watch: none is left lying."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        pool, rng = batches(workers, records_min=1), random.Random(3)
        for offset in range(5_000):
            pool.receive(offset)
            pool.exchange.wake_one()
            for _ in range(rng.randrange(300)):
                pass
            if rng.random() < 0.3:
                assert pool.wait_for(offset + 1, for_s=5.0), f"{offset} is left lying"
        assert pool.wait_for(5_000, for_s=5.0)
    finally:
        sys.setswitchinterval(before_s)
    assert sorted(offset for batch in pool.handled for offset in batch) == list(range(5_000))


def test_a_batch_that_does_not_fill_goes_when_its_time_is_up(batches: Callable[..., Batches]) -> None:
    """Nobody wakes the collector for it: it wakes by itself."""
    pool = batches(wait_s_max=0.05)
    began_s = time.monotonic()
    pool.receive(0, 1, 2)
    pool.exchange.wake_one()
    assert pool.wait_for(3)
    assert time.monotonic() - began_s >= 0.05
    assert list(pool.handled) == [[0, 1, 2]]


def test_nobody_looks_again_and_again_while_a_batch_fills(
    batches: Callable[..., Batches], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand rounds of the poll thread wake the collector once, for its timer, until it is full."""
    taken = 0
    take = BatchExchange._take

    def counted(self: BatchExchange) -> Any:
        nonlocal taken
        taken += 1
        return take(self)

    monkeypatch.setattr(BatchExchange, "_take", counted)
    pool = batches(workers=4)
    wait_until(lambda: waits(pool))
    pool.receive(0)
    for _ in range(1_000):
        assert not pool.exchange.watch()
    wait_until(lambda: waits(pool))
    assert taken <= 4
    pool.receive(*range(1, 10))
    pool.exchange.watch()
    assert pool.wait_for(10)
    assert [len(batch) for batch in pool.handled] == [10]


def test_one_collects_while_the_others_run(batches: Callable[..., Batches]) -> None:
    """Three workers run three full batches side by side; the fourth waits until one is free."""
    pool = batches(workers=3, records_max=2)
    pool.gate.clear()
    for number in range(4):
        pool.receive(2 * number, 2 * number + 1, keys=100)
        pool.exchange.wake_one()
    wait_until(lambda: pool.running == 3)
    time.sleep(0.02)
    assert pool.running == 3
    pool.gate.set()
    assert pool.wait_for(8)


def test_lanes_that_come_back_fill_the_batch_of_the_waiting_collector(
    batches: Callable[..., Batches],
) -> None:
    """Followers of a running batch are counted as soon as it is handed in, without the poll thread."""
    pool = batches(workers=2, records_max=2)
    pool.gate.clear()
    pool.receive(0, 1, keys=2)
    pool.exchange.wake_one()
    wait_until(lambda: pool.running == 1)
    pool.receive(2, 3, keys=2)
    pool.exchange.wake_one()
    wait_until(lambda: waits(pool))
    pool.gate.set()
    assert pool.wait_for(4)


@pytest.mark.parametrize("how", ["hurry", "drain"])
def test_a_waiting_batch_goes_at_once_when_nothing_more_will_come(
    batches: Callable[..., Batches], how: str
) -> None:
    """At a stop, and in the round of the poll thread after a partition is drained."""
    pool = batches()
    pool.receive(0, 1, 2)
    pool.exchange.watch()
    wait_until(lambda: waits(pool))
    if how == "hurry":
        pool.exchange.hurry()
    else:
        with pool.exchange.locked() as dispatcher:
            other = dispatcher.assign(TopicPartition("t", 1), 1)
            dispatcher.drain(other, below_started=True)
        pool.exchange.watch()
    assert pool.wait_for(3)


def test_closing_ends_those_who_wait_and_those_who_wait_for_their_turn(
    batches: Callable[..., Batches],
) -> None:
    """What is ready is handled before they leave."""
    pool = batches(workers=4)
    pool.receive(0, 1)
    assert pool.workers.stop(LIMIT_S) == []
    assert list(pool.handled) == [[0, 1]]


def test_the_number_of_workers_can_change(batches: Callable[..., Batches]) -> None:
    """After a shrink no more than that run; threads that wait to collect leave."""
    pool = batches(workers=4, records_min=1, records_max=1)
    pool.workers.resize(1)
    wait_until(lambda: sum(thread.is_alive() for thread in pool.workers._threads) == 1)
    pool.gate.clear()
    pool.receive(0, 1, 2)
    pool.exchange.wake_one()
    wait_until(lambda: pool.running == 1)
    pool.workers.resize(3)
    wait_until(lambda: pool.running == 3)
    pool.gate.set()
    assert pool.wait_for(3)


def test_mutant_a_waker_that_does_not_look_leaves_records_lying(
    batches: Callable[..., Batches], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the look after a hand-in, the collector sleeps on a full batch."""
    monkeypatch.setattr(BatchExchange, "_wake_if_due", lambda _self: None)
    pool = batches(workers=1)
    wait_until(lambda: waits(pool))
    pool.receive(*range(10))
    pool.exchange.watch()
    assert not pool.wait_for(10, for_s=0.2)


def test_a_timer_that_is_late_is_set_anew(batches: Callable[..., Batches]) -> None:
    """A lane that came back from a wait has waited already: its batch goes sooner than the timer says."""
    pool = batches(wait_s_max=60.0)
    pool.receive(0)
    pool.exchange.watch()
    wait_until(lambda: waits(pool))
    with pool.exchange.locked() as dispatcher:
        old = [SimulatedMessage("t", 1, 0, b"old")]
        other = dispatcher.assign(TopicPartition("t", 1), 1)
        dispatcher.receive(other, old, [b"old"], time.monotonic() - 61.0)
        dispatcher.ready.rotate(1)
    pool.exchange.watch()
    assert pool.wait_for(2)
    assert isinstance(pool.exchange.plan, BatchPlan)


def test_a_lane_handed_in_while_the_lock_is_held_wakes_the_collector(batches: Callable[..., Batches]) -> None:
    """Whoever held the lock settles it on leaving; nobody else comes by."""
    pool = batches(records_max=2)
    records = [SimulatedMessage("t", 0, offset, b"a") for offset in (0, 1)]
    with pool.exchange.locked() as dispatcher:
        # In one hold of the lock: else the collector may be there first.
        dispatcher.receive(pool.assignment, records, [b"a", b"a"], time.monotonic())
        lane = dispatcher.begin()
    assert lane is not None
    wait_until(lambda: waits(pool))
    with pool.exchange.locked():
        pool.exchange.returned.append(lane)
    assert pool.wait_for(2)


def test_a_long_batch_of_a_chunk_lets_other_keys_of_its_partition_go_on(
    batches: Callable[..., Batches],
) -> None:
    """An idle worker waits a little and takes what is behind, less the keys that run; nobody wakes it."""
    pool = batches(workers=2, slices=True, records_max=3, records_min=1)
    pool.gate.clear()
    pool.receive(0, 1, 2, keys=3)
    pool.exchange.wake_one()
    wait_until(lambda: pool.running == 1)
    pool.receive(3, 10, keys=7)  # the keys 3 and 3
    pool.exchange.wake_one()
    wait_until(lambda: pool.running == 2)
    pool.gate.set()
    assert pool.wait_for(5)
    assert not pool.overlaps


def test_batches_of_chunks_that_run_side_by_side_share_no_key(batches: Callable[..., Batches]) -> None:
    """Quick batches and long ones, and somebody who gives them lanes: all are handled, each key once."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        pool, rng = batches(workers=4, slices=True, records_max=20, records_min=1), random.Random(5)
        pool.work = lambda: time.sleep(rng.choice([0.0, 0.0, 0.0, 0.007]))
        taken = pool.exchange.plan.due.taken_s
        for first in range(0, 6_000, 10):
            pool.receive(*range(first, first + 10), keys=rng.choice([7, 40]))
            pool.exchange.watch()
            # Else all is lanes after the first few: what waits behind one gets lanes as well.
            assert pool.wait_for(first - 60)
            if rng.random() < 0.1:
                with pool.exchange.locked() as dispatcher:
                    for chunk in list(taken):
                        dispatcher.end_early(chunk)
        wait_until(lambda: pool.exchange.watch() is not None and pool.records == 6_000)
    finally:
        sys.setswitchinterval(before_s)
    assert not pool.overlaps
    assert sorted(offset for batch in pool.handled for offset in batch) == list(range(6_000))
    wait_until(lambda: pool.dispatcher.finished_records == 6_000)
    assert 1_000 < pool.dispatcher.chunk_records < 6_000
    assert not pool.assignment.lanes
    assert not taken


def test_a_waker_that_comes_as_the_time_is_up_leaves_the_gate_locked() -> None:
    """Its token is taken: else the next wait ends at once, and the next waker finds the gate open."""
    limits = BatchLimits(records_max=2, records_min=2, bytes_max=None, wait_s_max=FOR_EVER_S)
    exchange = BatchExchange(Dispatcher(), time.monotonic, limits)
    lock = threading.Lock()
    lock.acquire()

    class Gate:
        """Times out, and a waker comes before anybody knows."""

        release = lock.release
        locked = lock.locked

        def acquire(self, *, blocking: bool = True, timeout: float = 0.0) -> bool:
            """Answer as a lock does."""
            if blocking:
                assert timeout == -1
                exchange.wake_all()
                return False
            return lock.acquire(blocking=False)

    gate: Any = Gate()
    assert exchange.collect(gate) == []
    assert gate.locked()
    assert exchange.collect(gate) == []
