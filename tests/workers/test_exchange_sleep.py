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
from ehkafka.workers.exchange import QUICK_S, Exchange
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
        "if self.closed or ((ready or self.returned) and not left_to_quick_worker):",
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
