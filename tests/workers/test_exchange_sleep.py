"""Lost wake-ups: a worker on its way to sleep never leaves a record lying."""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.lanes.dispatcher import Dispatcher
from ehkafka.records import TopicPartition
from ehkafka.workers.exchange import PATIENCE_S, QUICK_S, Exchange
from tests.kit.simulated.message import SimulatedMessage

if TYPE_CHECKING:
    from collections.abc import Callable


PARTITION = TopicPartition("t", 0)
LIMIT_S = 30.0

pytestmark = pytest.mark.usefixtures("switch_often")


def trickle(pool: Any, records: int, *, waits_s: float) -> str | None:
    """Hand over single records at random moments, each with one wake and no watch; say what was left."""
    rng = random.Random(7)
    assignment = pool.assign()
    for offset in range(records):
        pool.receive(assignment, offset, [b"k%d" % rng.randrange(3)])
        pool.exchange.wake_one()
        for _ in range(rng.randrange(300)):
            pass
        if rng.random() < 0.3:
            ends_s = time.monotonic() + waits_s
            while pool.handled <= offset:
                if time.monotonic() > ends_s:
                    return f"{offset + 1 - pool.handled} records lie for {waits_s} s with idle workers"
                time.sleep(0)
    ends_s = time.monotonic() + waits_s
    while pool.handled < records:
        if time.monotonic() > ends_s:
            return f"{records - pool.handled} records were left lying"
        time.sleep(0)
    return str(pool.wrong[0]) if pool.wrong else None


@pytest.mark.parametrize("quick", [True, False])
def test_a_record_that_finds_workers_falling_asleep_is_handled_without_a_watch(
    pool: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, quick: bool
) -> None:
    """10 000 single records and four workers: one wake each is enough, for quick and for slow handlers."""
    made = pool(4)
    made.exchange.cost_s = QUICK_S / 4 if quick else 1.0
    monkeypatch.setattr(made.exchange, "note_cost", lambda _cost_s: None)
    assert trickle(made, 10_000, waits_s=5.0) is None


def falls_asleep_on_work(*, quick: bool) -> bool:
    """Let a record come after a worker's last look and before its gate is out; tell whether it sleeps."""
    dispatcher = Dispatcher()
    exchange = Exchange(dispatcher, time.monotonic)
    exchange.cost_s = QUICK_S / 4 if quick else 1.0
    assignment = dispatcher.assign(PARTITION, 1)

    class Late(deque[threading.Lock]):
        def append(self, gate: threading.Lock) -> None:
            dispatcher.receive(assignment, [SimulatedMessage("t", 0, 0, b"a")], [b"a"], 0.0)
            exchange.wake_one()
            super().append(gate)

    exchange._idle_gates = Late()
    gate = threading.Lock()
    gate.acquire()
    worker = threading.Thread(target=exchange.sleep, args=(gate,), daemon=True)
    worker.start()
    worker.join(0.5)
    sleeps = worker.is_alive()
    if sleeps:
        gate.release()
        worker.join(LIMIT_S)
    return sleeps


@pytest.mark.parametrize("quick", [True, False])
def test_a_record_that_comes_before_the_gate_is_out_keeps_its_worker_awake(quick: bool) -> None:
    """Whoever came then found nobody to wake: the worker must see it itself."""
    assert not falls_asleep_on_work(quick=quick)


@pytest.mark.parametrize("quick", [True, False])
def test_mutant_a_worker_falls_asleep_without_a_second_look(mutate: Callable[..., None], quick: bool) -> None:
    """Without the look after publishing the gate, the record is left lying."""
    mutate(
        Exchange,
        "publish",
        "if self.closed or (ready and not left_to_quick_worker):",
        "if self.closed:",
    )
    assert falls_asleep_on_work(quick=quick)


def test_mutant_a_quick_worker_keeps_its_role_while_it_falls_asleep(mutate: Callable[..., None]) -> None:
    """A worker that leaves the work to a quick worker which is itself, asleep, leaves it to nobody."""
    mutate(Exchange, "sleep", "if self._quick_worker is gate:", "if False:")
    dispatcher = Dispatcher()
    exchange = Exchange(dispatcher, time.monotonic)
    exchange.cost_s = QUICK_S / 4
    gate = threading.Lock()
    gate.acquire()
    assert not exchange.steps_back(gate)
    assignment = dispatcher.assign(PARTITION, 1)
    dispatcher.receive(assignment, [SimulatedMessage("t", 0, 0, b"a")], [b"a"], 0.0)
    worker = threading.Thread(target=exchange.sleep, args=(gate,), daemon=True)
    worker.start()
    worker.join(0.3)
    assert worker.is_alive()
    gate.release()
    worker.join(LIMIT_S)


def woken_for_one_record(*, cost_s: float, turns: int, pass_s: float = 0.0) -> int:
    """Receive a record while three workers sleep; return how many are woken in so many turns."""
    now = [10.0]
    dispatcher = Dispatcher()
    exchange = Exchange(dispatcher, lambda: now[0])
    exchange.cost_s = cost_s
    gates = [threading.Lock() for _ in range(3)]
    for gate in gates:
        gate.acquire()
        assert exchange.publish(gate)
    with exchange.locked():
        assignment = dispatcher.assign(PARTITION, 1)
        dispatcher.receive(assignment, [SimulatedMessage("t", 0, 0, b"a")], [b"a"], 0.0)
    for _ in range(turns):
        exchange.watch()
        now[0] += pass_s
    return sum(not gate.locked() for gate in gates)


def test_a_quick_record_wakes_one_worker() -> None:
    """The one that was woken may not run yet: a second one would find nothing, and take its time."""
    assert woken_for_one_record(cost_s=QUICK_S / 4, turns=3) == 1
    # One that does not come is replaced.
    assert woken_for_one_record(cost_s=QUICK_S / 4, turns=3, pass_s=2 * PATIENCE_S) > 1
    # Slow ones may each be woken for a record of their own.
    assert woken_for_one_record(cost_s=2 * QUICK_S, turns=2) == 3


def test_mutant_who_is_woken_for_quick_records_is_not_known_before_it_runs(
    mutate: Callable[..., None],
) -> None:
    """Each look wakes one more."""
    mutate(Exchange, "_wake_one", "self._quick_worker = gate", "pass")
    assert woken_for_one_record(cost_s=QUICK_S / 4, turns=1) == 2


def test_a_quick_worker_that_takes_slow_records_is_none_any_more() -> None:
    """Else others leave quick records to it that come meanwhile."""
    exchange = Exchange(Dispatcher(), time.monotonic)
    first, second = threading.Lock(), threading.Lock()
    exchange.cost_s = QUICK_S / 4
    assert not exchange.steps_back(first)
    assert exchange.steps_back(second)
    exchange.cost_s = 2 * QUICK_S
    assert not exchange.steps_back(first)
    exchange.cost_s = QUICK_S / 4
    assert not exchange.steps_back(second)


def slept_and_woken(by: str, monkeypatch: pytest.MonkeyPatch) -> tuple[bool, bool]:
    """Hand in a lane with one record more while `by` has the lock; tell whether its worker slept and woke."""
    dispatcher = Dispatcher()
    exchange = Exchange(dispatcher, time.monotonic)
    assignment = dispatcher.assign(PARTITION, 1)
    keys = [b"a", b"b", b"b"]
    batch = [SimulatedMessage("t", 0, offset, key) for offset, key in enumerate(keys)]
    dispatcher.receive(assignment, batch, keys, 0.0)
    first, second = dispatcher.begin(), dispatcher.begin()
    assert first is not None
    assert second is not None
    gate, slept = threading.Lock(), list[bool]()
    gate.acquire()

    def hand_in() -> None:
        second.advance()
        exchange.returned.append(second)
        exchange.settle()
        slept.append(exchange.publish(gate))

    def hand_in_beside() -> None:
        worker = threading.Thread(target=hand_in)
        worker.start()
        worker.join(LIMIT_S)

    if by == "poll thread":
        with exchange.locked():
            hand_in_beside()
    else:
        settle, beside = dispatcher.settle, [hand_in_beside]

        def interrupted(lanes: Any, now_s: float) -> None:
            settle(lanes, now_s)
            if beside:
                beside.pop()()

        monkeypatch.setattr(dispatcher, "settle", interrupted)
        first.advance()
        exchange.returned.append(first)
        exchange.settle()
    return slept == [True], gate.acquire(timeout=0.2)


@pytest.mark.parametrize("by", ["poll thread", "worker"])
def test_a_worker_sleeps_while_another_settles_and_is_woken_for_what_that_made_ready(
    by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock's holder may be preempted: a hundred workers that stayed awake for it would spin for long."""
    assert slept_and_woken(by, monkeypatch) == (True, True)


@pytest.mark.parametrize("by", ["poll thread", "worker"])
def test_mutant_a_worker_stays_awake_for_what_is_not_settled(
    mutate: Callable[..., None], by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would look again and again until the lock's holder runs."""
    mutate(Exchange, "publish", "(ready and not left", "((ready or self.returned) and not left")
    assert not slept_and_woken(by, monkeypatch)[0]


def test_mutant_who_settles_wakes_nobody(
    mutate: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was handed in meanwhile is ready, and whoever handed it in is asleep."""
    mutate(Exchange, "_wake_for_settled", "self.wake_one()", "pass")
    assert slept_and_woken("worker", monkeypatch) == (True, False)


def woken_for_what_was_settled_first() -> bool:
    """Hand in and fall asleep, then let the poll thread take the lock; tell whether the worker is woken."""
    dispatcher = Dispatcher()
    exchange = Exchange(dispatcher, time.monotonic)
    batch = [SimulatedMessage("t", 0, offset, b"a") for offset in range(2)]
    dispatcher.receive(dispatcher.assign(PARTITION, 1), batch, [b"a", b"a"], 0.0)
    lane, gate = dispatcher.begin(), threading.Lock()
    assert lane is not None
    gate.acquire()
    lane.advance()
    exchange.returned.append(lane)
    assert exchange.publish(gate)
    with exchange.locked():
        pass
    assert dispatcher.ready
    return gate.acquire(timeout=0.2)


def test_the_poll_thread_wakes_a_worker_for_what_it_settled_first() -> None:
    """What it settles before its own work is not handed in any more when it leaves."""
    assert woken_for_what_was_settled_first()


def test_mutant_the_poll_thread_wakes_nobody_for_what_it_settled_first(mutate: Callable[..., None]) -> None:
    """Only `settle` would wake, and it finds nothing to settle."""
    mutate(Exchange, "locked", "self._wake_for_settled()", "pass")
    assert not woken_for_what_was_settled_first()
