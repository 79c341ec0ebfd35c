"""How a loop takes records out of chunks: a few at once, not waiting for the lock, none kept for nothing."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING

from ehkafka.lanes.dispatcher import Dispatcher
from ehkafka.lanes.order import KeyReader
from ehkafka.records import TopicPartition
from ehkafka.workers.tasks import tasks
from ehkafka.workers.tasks.exchange import LoopExchange
from ehkafka.workers.tasks.tasks import LaneTasks
from tests.kit.simulated.message import SimulatedMessage
from tests.workers.tasks.conftest import LIMIT_S, Pool

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from ehkafka.lanes.assignment import Assignment
    from ehkafka.lanes.lane import Lane


def an_exchange(records: int) -> tuple[LoopExchange, Assignment]:
    """Return an exchange with so many records of as many keys."""
    dispatcher = Dispatcher()
    exchange = LoopExchange(dispatcher, time.monotonic, dispatcher.use_late_lanes(KeyReader()))
    assignment = dispatcher.assign(TopicPartition("t", 0), 1)
    batch = [SimulatedMessage("t", 0, number, b"k%d" % number) for number in range(records)]
    with exchange.locked():
        dispatcher.receive(assignment, batch, None, 0.0)  # type: ignore[arg-type]
    return exchange, assignment


def test_what_waits_counts_as_work_and_as_at_hand() -> None:
    """The poll thread wakes for it, and brings no more than is needed; a rest is none before it is taken."""
    exchange, _ = an_exchange(50)
    assert exchange.has_ready()
    assert exchange.watch() is False  # nobody sleeps
    assert (exchange.ready_lanes(), exchange.lanes_at_hand(2_000), exchange.ready_records(100)) == (
        50,
        50,
        50,
    )
    assert not exchange.takes_all
    assert not exchange.is_at_rest((), letters=False)
    lanes = exchange.take(50)
    for lane in lanes:
        lane.advance()
        exchange.returned.append(lane)
    assert exchange.take(1) == []
    exchange.settle()
    assert not exchange.has_ready()
    assert exchange.is_at_rest((), letters=False)


def test_a_loop_that_finds_the_lock_taken_takes_nothing_and_does_not_wait() -> None:
    """Whoever has it settles what was handed in; the loop asks again."""
    exchange, assignment = an_exchange(3)
    (lane,) = exchange.take(1)
    lane.advance()
    with exchange.locked():
        exchange.returned.append(lane)
        assert exchange.take(5) == []
    assert assignment.finished_records == 1
    assert len(exchange.take(5)) == 2


def left_unstarted(pool: Pool) -> int:
    """Let one worker's first call last; return how many more records count as running then."""
    gate = asyncio.Event()
    calls: list[int] = []

    async def work(lane: Lane) -> None:
        assert lane.head is not None
        calls.append(lane.head.offset())
        if lane.head.offset() == 100:
            await gate.wait()

    pool.work = work
    assignment = pool.assign()
    # Quick ones first: then many are taken at once.
    pool.receive(assignment, 0, [b"k%d" % number for number in range(300)])
    pool.wait(lambda: 100 in calls)
    ends_s = time.monotonic() + 0.5
    while time.monotonic() < ends_s:
        with pool.exchange.locked():
            running = sum(lane.running for lane in assignment.lanes.values())
        if running == 1:
            break
        time.sleep(1e-3)
    assert pool.workers._loop is not None
    pool.workers._loop.call_soon_threadsafe(gate.set)
    pool.wait(lambda: len(calls) == 300)
    return running - 1


def test_what_no_task_has_goes_back_each_round(pool: Callable[..., Pool]) -> None:
    """One worker whose call lasts: nothing else counts as running, however many were taken beside it."""
    assert left_unstarted(pool(1)) == 0


def test_mutant_what_was_taken_is_kept(pool: Callable[..., Pool], mutate: Callable[..., None]) -> None:
    """Kept, they would look as if they ran for as long as the call beside them."""
    mutate(LaneTasks, "_end_round", "self.give_back()", "pass")
    made = pool(1)
    left = left_unstarted(made)
    assert bool(left) is made.is_late


def test_records_that_wait_wake_an_idle_loop(pool: Callable[..., Pool]) -> None:
    """One wake-up for a batch, whatever has a lane of it by then."""
    made = pool(4)
    assignment = made.assign()
    for first in range(0, 1_000, 10):
        made.wait(lambda: made.exchange._idle_gates)
        made.receive(assignment, first, [b"k%d" % number for number in range(10)])
        made.wait(lambda first=first: len(made.ended) == first + 10)  # type: ignore[misc]


def test_mutant_what_waits_is_no_work(pool: Callable[..., Pool], mutate: Callable[..., None]) -> None:
    """An exchange that looks at ready lanes alone lets the loop sleep."""
    mutate(LoopExchange, "has_ready", "self._late.waits or ", "")
    made = pool(4)
    made.wait(lambda: made.exchange._idle_gates)
    made.receive(made.assign(), 0, [b"a"])
    ends_s = time.monotonic() + 0.5
    while not made.ended and time.monotonic() < ends_s:
        time.sleep(1e-3)
    assert bool(made.ended) is not made.is_late
    made.workers.resize(4)  # it looks for itself
    made.wait(lambda: made.ended)


def test_a_poll_thread_that_keeps_the_lock_holds_nobody_up_for_long(
    pool: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it has the lock the loop goes round; once it is free all is taken."""
    rounds: list[int] = []
    end_round = LaneTasks._end_round
    monkeypatch.setattr(LaneTasks, "_end_round", lambda self: (rounds.append(1), end_round(self)))
    made = pool(4)
    assignment = made.assign()
    taken, let_go = threading.Event(), threading.Event()

    def keep() -> None:
        with made.exchange.locked():
            taken.set()
            assert let_go.wait(LIMIT_S)

    made.wait(lambda: made.exchange._idle_gates)
    made.receive(assignment, 0, [b"k%d" % number for number in range(2 * tasks.TAKEN_MAX)])
    thread = threading.Thread(target=keep)
    thread.start()
    assert taken.wait(LIMIT_S)
    seen = len(rounds)
    made.wait(lambda: len(made.ended) == 2 * tasks.TAKEN_MAX or len(rounds) > seen + 20)
    let_go.set()
    thread.join()
    made.wait(lambda: len(made.ended) == 2 * tasks.TAKEN_MAX)
