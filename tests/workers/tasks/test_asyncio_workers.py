"""Asyncio workers without a broker: how many, fairness, each call's context, and what a stack shows."""

from __future__ import annotations

import asyncio
import sys
import threading
import types
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from ehkafka.errors import HandlerFailedError
from ehkafka.workers.tasks import loop as asyncio_loop
from ehkafka.workers.tasks import tasks
from ehkafka.workers.tasks.tasks import LoopGate

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from ehkafka.lanes.lane import Lane

from tests.workers.tasks.conftest import LIMIT_S, Pool, nothing

# --- how many, and fairness ---------------------------------------------------------------------------


def test_as_many_calls_run_at_once_as_there_are_workers(pool: Callable[..., Pool]) -> None:
    """1000 workers and 3000 keys: 1000 calls wait at once, never 1001; then all are done."""
    gate = asyncio.Event()

    async def wait(_lane: Lane) -> None:
        await gate.wait()

    made = pool(1000, wait)
    made.receive(made.assign(), 0, [b"k%d" % n for n in range(3000)])
    made.wait(lambda: len(made.started) == 1000)
    assert made.workers._loop is not None
    made.workers._loop.call_soon_threadsafe(gate.set)
    made.wait(lambda: len(made.ended) == 3000)
    assert made.running_max == 1000


def test_the_number_of_workers_may_change_while_they_run(pool: Callable[..., Pool]) -> None:
    """Growing takes effect at once, shrinking after the calls that run."""
    gates = [asyncio.Event(), asyncio.Event()]

    async def wait(lane: Lane) -> None:
        assert lane.head is not None
        await gates[lane.head.offset() >= 6].wait()

    made = pool(2, wait)
    made.receive(made.assign(), 0, [b"k%d" % n for n in range(12)])
    made.wait(lambda: len(made.started) == 2)
    made.workers.resize(6)
    made.wait(lambda: len(made.started) == 6)
    made.workers.resize(3)
    loop = made.workers._loop
    assert loop is not None
    loop.call_soon_threadsafe(gates[0].set)
    made.wait(lambda: len(made.started) == 9)
    assert made._running == 3
    loop.call_soon_threadsafe(gates[1].set)
    made.wait(lambda: len(made.ended) == 12)
    assert made.workers.size == 3


def test_calls_that_never_suspend_let_the_loop_have_its_turn(pool: Callable[..., Pool]) -> None:
    """50 000 such records in one lane and in many: what the first one scheduled runs long before the end."""
    seen: list[int] = []
    made: Pool

    async def schedule(lane: Lane) -> None:
        assert lane.head is not None
        if lane.head.offset() == 0:
            asyncio.get_running_loop().call_later(0, lambda: seen.append(len(made.ended)))

    made = pool(100, schedule)
    keys = [b"one" if n % 2 else b"k%d" % n for n in range(50_000)]
    made.receive(made.assign(), 0, keys)
    made.wait(lambda: len(made.ended) == 50_000)
    assert seen
    assert seen[0] < 25_000


def test_a_busy_lane_does_not_keep_late_ones_waiting(pool: Callable[..., Pool]) -> None:
    """One worker: a lane of 3000 records that never suspend gives way after a bounded turn."""
    made = pool(1)
    made.receive(made.assign(), 0, [b"busy"] * 3000 + [b"late"])
    made.wait(lambda: len(made.ended) == 3001)
    assert made.ended.index(3000) < 200


def test_calls_that_suspend_one_after_another_serve_all_lanes_in_turn(pool: Callable[..., Pool]) -> None:
    """One worker, two lanes of twenty: it goes on over a few of one's calls, then the other has its turn."""

    async def give_way(_lane: Lane) -> None:
        await asyncio.sleep(0)

    made = pool(1, give_way)
    made.receive(made.assign(), 0, [b"a"] * 20 + [b"b"] * 20)
    made.wait(lambda: len(made.ended) == 40)
    assert [offset for offset in made.ended if offset < 20] == list(range(20))
    if made.is_late:
        return  # then its lane has as few of them as were taken at once
    first = tasks.SUSPENDED_RECORDS_MAX
    assert made.ended.index(20) <= first, "a lane waits for all of another's records"
    assert made.ended.index(1) < made.ended.index(20), "a task looks for a lane after each record"


def test_slow_calls_of_one_lane_give_way_after_each(pool: Callable[..., Pool]) -> None:
    """One worker, two lanes: a call that takes longer than a turn ends it."""

    async def wait(_lane: Lane) -> None:
        await asyncio.sleep(1.5 * tasks.SUSPENDED_S)

    made = pool(1, wait)
    made.receive(made.assign(), 0, [b"a", b"a", b"b", b"b"])
    made.wait(lambda: len(made.ended) == 4)
    assert made.ended == ([0, 1, 2, 3] if made.is_late else [0, 2, 1, 3])


# --- each attempt by itself -------------------------------------------------------------------------------


def test_each_attempt_has_a_context_of_its_own(pool: Callable[..., Pool]) -> None:
    """What a handler sets is gone at the next record; what the set-up set is there."""
    own: ContextVar[str] = ContextVar("own", default="fresh")
    given: ContextVar[str] = ContextVar("given", default="nothing")
    seen: list[tuple[str, str]] = []

    async def check(_lane: Lane) -> None:
        seen.append((own.get(), given.get()))
        own.set("stale")
        given.set("stale")

    for set_up, expected in ((None, "nothing"), (lambda: given.set("from the set-up"), "from the set-up")):
        seen.clear()
        made = pool(1, check, set_up=set_up)
        made.receive(made.assign(), 0, [b"a", b"a", b"a", b"b"])
        made.wait(lambda made=made: len(made.ended) == 4)
        assert set(seen) == {("fresh", expected)}


def test_a_result_that_nobody_runs_is_a_failure(pool: Callable[..., Pool]) -> None:
    """A handler that returns a coroutine has handled nothing."""

    async def forgets(lane: Lane) -> object:
        return nothing(lane)

    made = pool(1, forgets)
    made.receive(made.assign(), 0, [b"a"])
    made.wait(lambda: made.failed)
    assert "returned a coroutine that nobody runs" in str(made.failed[0])


# --- the loop itself -----------------------------------------------------------------------------------


def test_a_loop_that_dies_is_reported_and_leaves_its_records_unfinished(pool: Callable[..., Pool]) -> None:
    """SystemExit in a task that a handler left behind ends the loop: visible, nothing runs any more."""

    async def leave() -> None:
        sys.exit(3)

    async def work(lane: Lane) -> None:
        if lane.key == b"b":
            lane.assignment.context = asyncio.get_running_loop().create_task(leave())
        await asyncio.Event().wait()

    made = pool(4, work)
    assignment = made.assign()
    made.receive(assignment, 0, [b"a", b"b"])
    made.wait(lambda: made.deaths)
    # The handler's fault, and so it is named; not the engine's.
    assert isinstance(made.deaths[0], HandlerFailedError)
    assert "SystemExit: 3" in str(made.deaths[0])
    assert assignment.context.exception() is made.deaths[0].__cause__  # type: ignore[attr-defined]
    assert made.workers.stop(LIMIT_S) == []
    with made.exchange.locked() as dispatcher:
        dispatcher.drain(assignment, below_started=False)
        # Nobody waits for what died with the loop, and nothing of it counts as done.
        assert dispatcher.drained(assignment)
        assert assignment.watermark() == 0
    assert made.failed == []


def test_an_engine_error_ends_the_loop_visibly(
    pool: Callable[..., Pool], mutate: Callable[..., None]
) -> None:
    """What is no handler's error is reported as the pool's death."""

    async def fail(_lane: Lane) -> None:
        raise ValueError

    made = pool(4, fail)
    made.workers._tasks._on_failure = None  # type: ignore[union-attr, assignment]
    made.receive(made.assign(), 0, [b"a"])
    made.wait(lambda: made.deaths)
    assert isinstance(made.deaths[0], TypeError)


def test_set_up_and_tear_down_run_once_on_the_loop_and_may_be_async(pool: Callable[..., Pool]) -> None:
    """Clients that are bound to a loop are opened and closed on it."""
    calls: list[Any] = []

    async def set_up() -> None:
        await asyncio.sleep(0)
        calls.append(asyncio.get_running_loop())

    async def tear_down() -> None:
        await asyncio.sleep(0)
        calls.append(asyncio.get_running_loop())

    async def work(_lane: Lane) -> None:
        calls.append(asyncio.get_running_loop())

    made = pool(4, work, set_up=set_up, tear_down=tear_down)
    made.receive(made.assign(), 0, [b"a"])
    made.wait(lambda: made.ended)
    assert made.workers.stop(LIMIT_S) == []
    assert len(calls) == 3
    assert len(set(calls)) == 1


def test_a_stuck_report_shows_what_a_suspended_call_awaits(pool: Callable[..., Pool]) -> None:
    """Partition, offset and key, then the frames down to the innermost await."""

    async def waits_for_a_reply() -> None:
        await asyncio.Event().wait()

    async def work(_lane: Lane) -> None:
        await waits_for_a_reply()

    made = pool(4, work)
    made.receive(made.assign(), 0, [b"a"])
    made.wait(lambda: made.started)
    made.wait(lambda: len(made.workers.stacks()) == 2)
    stack = made.workers.stacks()["ehkafka-x-loop t[0]@0 key a"]
    assert "in waits_for_a_reply" in stack
    assert "Event().wait()" in stack


def test_a_stuck_report_shows_the_oldest_calls_and_counts_the_others(pool: Callable[..., Pool]) -> None:
    """200 suspended calls are no report that anybody reads."""

    async def work(_lane: Lane) -> None:
        await asyncio.Event().wait()

    made = pool(200, work)
    made.receive(made.assign(), 0, [b"k%d" % n for n in range(200)])
    made.wait(lambda: len(made.started) == 200)
    stacks = made.workers.stacks()
    assert len(stacks) == 52
    assert stacks["ehkafka-x-loop …"] == "and 150 calls more\n"


def test_a_stuck_report_shows_where_a_blocking_call_holds_the_loop_up(pool: Callable[..., Pool]) -> None:
    """A call that blocks instead of awaiting is on the thread's own stack."""
    gate = threading.Event()

    async def blocks_the_loop(_lane: Lane) -> None:
        gate.wait(LIMIT_S)

    made = pool(4, blocks_the_loop)
    made.receive(made.assign(), 0, [b"a"])
    made.wait(lambda: made.started)
    try:
        assert "in blocks_the_loop" in made.workers.stacks()["ehkafka-x-loop"]
        assert made.workers.stop(0.05) == ["ehkafka-x-loop"]
    finally:
        gate.set()


def test_uvloop_is_taken_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop is what its `new_event_loop` makes."""
    made = object()
    monkeypatch.setitem(sys.modules, "uvloop", types.SimpleNamespace(new_event_loop=lambda: made))
    assert asyncio_loop.new_loop() is made


def test_without_uvloop_the_standard_loop_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra is not needed."""
    monkeypatch.setitem(sys.modules, "uvloop", None)
    loop = asyncio_loop.new_loop()
    assert type(loop).__module__.startswith("asyncio.")
    loop.close()


def test_a_gate_of_a_closed_loop_wakes_nobody() -> None:
    """A waker may be late: the pool has left."""
    loop = asyncio.new_event_loop()
    loop.close()
    LoopGate(loop, lambda: None).release()
