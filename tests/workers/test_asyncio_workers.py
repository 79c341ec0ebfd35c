"""Asyncio workers on one dispatcher, without a broker: waking, cancelling, fairness, what a stack shows."""

from __future__ import annotations

import asyncio
import random
import sys
import threading
import time
import types
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.errors import HandlerFailedError
from ehkafka.lanes.decision import HoldHead
from ehkafka.lanes.dispatcher import Dispatcher
from ehkafka.records import TopicPartition
from ehkafka.workers.exchange import Exchange
from ehkafka.workers.protocol import PoolOptions
from ehkafka.workers.tasks import loop as asyncio_loop
from ehkafka.workers.tasks.gate import LoopGate
from ehkafka.workers.tasks.workers import AsyncioWorkers
from tests.kit.simulated.message import SimulatedMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from ehkafka.lanes.assignment import Assignment
    from ehkafka.lanes.lane import Lane

PARTITION = TopicPartition("t", 0)
LIMIT_S = 30.0


async def nothing(_lane: Lane) -> None:
    """Return without ever suspending."""


class Pool:
    """Asyncio workers, and a test in place of the poll thread."""

    def __init__(
        self,
        size: int,
        work: Callable[[Lane], Coroutine[None, None, object]] = nothing,
        exchange: type[Exchange] = Exchange,
        **options: Any,
    ) -> None:
        self.dispatcher = Dispatcher()
        self.exchange = exchange(self.dispatcher, time.monotonic)
        self.work = work
        # Offsets of the calls that began and that returned; what the desk was asked; what the loop died of.
        self.started: list[int] = []
        self.ended: list[int] = []
        self.failed: list[BaseException] = []
        self.deaths: list[BaseException] = []
        self.running_max = 0
        self._running = 0
        self._epochs = 0
        self.workers = AsyncioWorkers(
            self.exchange,
            PoolOptions(name="x", size=size, on_failure=self._decide, on_death=self.deaths.append, **options),
            invoke=self._invoke,
        )
        self.workers.start()

    async def _invoke(self, lane: Lane) -> object:
        assert lane.head is not None
        offset = lane.head.offset()
        self.started.append(offset)
        self._running += 1
        self.running_max = max(self.running_max, self._running)
        try:
            return await self.work(lane)
        finally:
            self._running -= 1
            self.ended.append(offset)

    def _decide(self, _lane: Lane, error: BaseException) -> Any:
        self.failed.append(error)
        return HoldHead("it failed")

    def assign(self) -> Assignment:
        """Begin an epoch."""
        self._epochs += 1
        with self.exchange.locked() as dispatcher:
            return dispatcher.assign(PARTITION, self._epochs)

    def receive(self, assignment: Assignment, first: int, keys: list[bytes]) -> None:
        """Hand over a batch and wake once, as the poll thread does when it looks."""
        batch = [SimulatedMessage("t", 0, first + n, key) for n, key in enumerate(keys)]
        with self.exchange.locked() as dispatcher:
            dispatcher.receive(assignment, batch, keys, 0.0)
        self.exchange.wake_one()

    def end(self, assignment: Assignment) -> None:
        """End an epoch as a loss does."""
        with self.exchange.locked() as dispatcher:
            dispatcher.end(assignment)
        self.workers.cancel_ended()

    def wait(self, true: Callable[[], Any], timeout_s: float = LIMIT_S) -> None:
        """Wait, without ever waking or settling."""
        ends_s = time.monotonic() + timeout_s
        while not true():
            assert time.monotonic() < ends_s, f"waited {timeout_s} s in vain"
            time.sleep(1e-3)


@pytest.fixture
def pool() -> Iterator[Callable[..., Pool]]:
    """Make pools that are closed when the test ends."""
    pools: list[Pool] = []

    def make(*arguments: Any, **options: Any) -> Pool:
        pools.append(Pool(*arguments, **options))
        return pools[-1]

    yield make
    for one in pools:
        for assignment in list(one.dispatcher.assignments.values()):
            one.end(assignment)
        assert one.workers.stop(LIMIT_S) == []


# --- waking -----------------------------------------------------------------------------------------


def trickle(pool: Pool, records: int, *, waits_s: float) -> str | None:
    """Hand over single records at random moments, each with one wake and no watch; say what was left."""
    rng = random.Random(7)
    assignment = pool.assign()
    for offset in range(records):
        pool.receive(assignment, offset, [b"k%d" % rng.randrange(3)])
        for _ in range(rng.randrange(40)):
            pass
        if rng.random() < 0.02:
            ends_s = time.monotonic() + waits_s
            while len(pool.ended) <= offset:
                if time.monotonic() > ends_s:
                    return f"{offset + 1 - len(pool.ended)} records lie for {waits_s} s under an idle loop"
                time.sleep(0)
    ends_s = time.monotonic() + waits_s
    while len(pool.ended) < records:
        if time.monotonic() > ends_s:
            return f"{records - len(pool.ended)} records were left lying"
        time.sleep(0)
    return None


def test_a_record_that_finds_the_loop_falling_asleep_is_handled_without_a_watch(
    pool: Callable[..., Pool],
) -> None:
    """100 000 single records to a loop that falls asleep again and again: one wake each is enough."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        assert trickle(pool(4), 100_000, waits_s=5.0) is None
    finally:
        sys.setswitchinterval(before_s)


class LateExchange(Exchange):
    """A record comes after the loop's last look and before its gate is out."""

    is_late = False

    def publish(self, gate: Any) -> bool:
        """Let the record come first."""
        if not self.is_late:
            self.is_late = True
            with self.locked() as dispatcher:
                assignment = dispatcher.assign(PARTITION, 1)
                dispatcher.receive(assignment, [SimulatedMessage("t", 0, 0, b"late")], [b"late"], 0.0)
            self.wake_one()
        return super().publish(gate)


def is_left_lying(pool: Pool) -> bool:
    """Tell whether a record that came while the loop fell asleep lies there."""
    ends_s = time.monotonic() + 1.0
    while not pool.ended and time.monotonic() < ends_s:
        time.sleep(1e-3)
    return not pool.ended


def test_a_record_that_comes_before_the_gate_is_out_is_seen_by_the_loop_itself(
    pool: Callable[..., Pool],
) -> None:
    """Whoever brought it found nobody to wake."""
    assert not is_left_lying(pool(4, exchange=LateExchange))


def test_mutant_a_loop_falls_asleep_without_a_second_look(
    pool: Callable[..., Pool], mutate: Callable[..., None]
) -> None:
    """Without the look after publishing the gate, the record is left lying."""
    old = "if self.closed or ((ready or self.returned) and not left_to_runner):"
    mutate(Exchange, "publish", old, "if self.closed:")
    made = pool(4, exchange=LateExchange)
    assert is_left_lying(made)
    made.exchange.watch()
    made.wait(lambda: made.ended)


def test_there_is_never_more_than_one_wake_up_on_its_way(
    pool: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gate that was released is not out again before the loop has woken: 500 records, one call."""
    calls: list[int] = []
    release = LoopGate.release
    monkeypatch.setattr(LoopGate, "release", lambda gate: (calls.append(1), release(gate)))
    holds, held = threading.Event(), threading.Event()

    def hold() -> None:
        holds.set()
        assert held.wait(LIMIT_S)

    made = pool(4)
    assignment = made.assign()
    made.wait(lambda: made.exchange._idle_gates)
    for _ in range(3):  # lets the loop look for work again, and find none
        made.workers.resize(4)
    assert made.workers._loop is not None
    made.workers._loop.call_soon_threadsafe(hold)
    assert holds.wait(LIMIT_S)
    for offset in range(500):
        made.receive(assignment, offset, [b"k%d" % offset])
    assert len(calls) == 1
    held.set()
    made.wait(lambda: len(made.ended) == 500)


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
    """O11: one worker: a lane of 3000 records that never suspend gives way after a bounded turn."""
    made = pool(1)
    made.receive(made.assign(), 0, [b"busy"] * 3000 + [b"late"])
    made.wait(lambda: len(made.ended) == 3001)
    assert made.ended.index(3000) < 200


def test_calls_that_suspend_one_after_another_serve_all_lanes_in_turn(pool: Callable[..., Pool]) -> None:
    """A turn ends with a call that suspended: two lanes on one worker alternate."""

    async def give_way(_lane: Lane) -> None:
        await asyncio.sleep(0)

    made = pool(1, give_way)
    made.receive(made.assign(), 0, [b"a", b"a", b"a", b"b", b"b", b"b"])
    made.wait(lambda: len(made.ended) == 6)
    assert made.ended == [0, 3, 1, 4, 2, 5]


# --- cancelling -----------------------------------------------------------------------------------------


def test_calls_of_an_ended_epoch_are_cancelled_and_decide_nothing(pool: Callable[..., Pool]) -> None:
    """R2: the handler sees CancelledError; the desk is not asked; the record runs again in the next epoch."""
    seen: list[str] = []

    async def wait(lane: Lane) -> None:
        try:
            if lane.assignment.epoch == 1:
                await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            seen.append(str(error))
            raise

    made = pool(4, wait)
    first = made.assign()
    made.receive(first, 0, [b"a", b"b", b"a"])
    made.wait(lambda: len(made.started) == 2)
    made.end(first)
    second = made.assign()
    made.receive(second, 0, [b"a", b"b", b"a"])
    made.wait(lambda: second.finished_records == 3 or made.exchange.settle())
    assert len(seen) == 2
    assert all("no longer this member's" in words for words in seen)
    assert made.failed == []
    assert (made.dispatcher.stale_records, made.dispatcher.returned_records) == (0, 3)


def test_a_handler_that_swallows_its_cancellation_is_stale_and_its_result_dropped(
    pool: Callable[..., Pool],
) -> None:
    """R2: the result is counted as stale; the task takes no other record with the cancellation on it."""
    cancelling: list[int] = []

    async def swallow(lane: Lane) -> None:
        task = asyncio.current_task()
        assert task is not None
        cancelling.append(task.cancelling())
        if lane.assignment.epoch == 1:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return

    made = pool(1, swallow)
    first = made.assign()
    made.receive(first, 0, [b"a"])
    made.wait(lambda: made.started)
    made.end(first)
    made.receive(made.assign(), 0, [b"a", b"b"])
    made.wait(lambda: len(made.ended) == 3)
    assert made.dispatcher.stale_records == 1
    assert cancelling == [0, 0, 0]


def test_other_calls_are_not_cancelled_with_an_ended_epoch(pool: Callable[..., Pool]) -> None:
    """Only what belongs to the ended partition is."""
    gate = asyncio.Event()

    async def wait(_lane: Lane) -> None:
        await gate.wait()

    made = pool(4, wait)
    ends = made.assign()
    with made.exchange.locked() as dispatcher:
        stays = dispatcher.assign(TopicPartition("t", 1), 1)
    made.receive(ends, 0, [b"a"])
    made.receive(stays, 0, [b"a"])
    made.wait(lambda: len(made.started) == 2)
    made.end(ends)
    made.wait(lambda: len(made.ended) == 1)
    assert made.workers._loop is not None
    made.workers._loop.call_soon_threadsafe(gate.set)
    made.wait(lambda: stays.finished_records == 1 or made.exchange.settle())
    assert made.failed == []


@pytest.mark.parametrize("error", [asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_f10_what_a_handler_raises_by_itself_goes_to_the_desk(
    pool: Callable[..., Pool], error: type[BaseException]
) -> None:
    """F10: a BaseException of an epoch that lasts is the desk's to decide; a loop is not ended by it."""

    async def fail(_lane: Lane) -> None:
        await asyncio.sleep(0)
        raise error

    made = pool(4, fail)
    made.receive(made.assign(), 0, [b"a"])
    made.wait(lambda: made.failed or made.deaths)
    assert [type(one) for one in made.failed] == [error]
    assert made.deaths == []


def test_epochs_that_end_while_calls_run_leave_no_hole_and_repeat_nothing(pool: Callable[..., Pool]) -> None:
    """300 revokes with and without patience: nothing unfinished is passed, nothing runs twice in an epoch."""
    rng = random.Random(5)
    done: dict[int, set[int]] = {}

    async def work(lane: Lane) -> None:
        assert lane.head is not None
        epoch, offset = lane.assignment.epoch, lane.head.offset()
        if offset % 3:
            await asyncio.sleep(0)
        if offset % 7 == 0:
            await asyncio.sleep(0.0005)
        assert offset not in done[epoch]
        done[epoch].add(offset)

    made = pool(6, work)
    keys = [b"k%d" % n for n in range(12)]
    position = 0
    for epoch in range(1, 301):
        done[epoch] = set()
        assignment = made.assign()
        count = rng.randrange(1, 80)
        made.receive(assignment, position, [rng.choice(keys) for _ in range(count)])
        if rng.random() < 0.5:
            time.sleep(rng.random() * 0.002)
        with made.exchange.locked() as dispatcher:
            dispatcher.drain(assignment, below_started=True)
        patient = rng.random() < 0.6

        def drained(assignment: Assignment = assignment) -> bool:
            with made.exchange.locked() as dispatcher:
                return dispatcher.drained(assignment)

        if patient:
            made.wait(drained)
        with made.exchange.locked() as dispatcher:
            watermark = assignment.watermark()
            dispatcher.end(assignment)
        made.workers.cancel_ended()
        assert watermark is not None
        assert set(range(position, watermark)) <= done[epoch]
        if patient:
            assert watermark == max(done[epoch], default=position - 1) + 1
        position = watermark
    assert made.failed == []
    assert made.deaths == []


# --- each attempt by itself -------------------------------------------------------------------------------


def test_each_attempt_has_a_context_of_its_own(pool: Callable[..., Pool]) -> None:
    """What a handler sets is gone at the next record; what the set-up set is there."""
    own: ContextVar[str] = ContextVar("own", default="fresh")
    given: ContextVar[str] = ContextVar("given", default="nothing")
    seen: list[tuple[str, str]] = []

    async def look(_lane: Lane) -> None:
        seen.append((own.get(), given.get()))
        own.set("stale")
        given.set("stale")

    for set_up, expected in ((None, "nothing"), (lambda: given.set("from the set-up"), "from the set-up")):
        seen.clear()
        made = pool(1, look, set_up=set_up)
        made.receive(made.assign(), 0, [b"a", b"a", b"a", b"b"])
        made.wait(lambda made=made: len(made.ended) == 4)
        assert set(seen) == {("fresh", expected)}


def test_a_result_that_nobody_runs_is_a_failure(pool: Callable[..., Pool]) -> None:
    """Contract 1: a handler that returns a coroutine has handled nothing."""

    async def forgets(lane: Lane) -> object:
        return nothing(lane)

    made = pool(1, forgets)
    made.receive(made.assign(), 0, [b"a"])
    made.wait(lambda: made.failed)
    assert "returned a coroutine that nobody runs" in str(made.failed[0])


# --- the loop itself -----------------------------------------------------------------------------------


def test_a_loop_that_dies_is_told_and_leaves_its_records_unfinished(pool: Callable[..., Pool]) -> None:
    """L7: SystemExit in a task that a handler left behind ends the loop: visible, nothing runs any more."""

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
    """L7: what is no handler's error is told as the pool's death."""

    async def fail(_lane: Lane) -> None:
        raise ValueError

    made = pool(4, fail)
    made.workers._tasks._on_failure = None  # type: ignore[union-attr, assignment]
    made.receive(made.assign(), 0, [b"a"])
    made.wait(lambda: made.deaths)
    assert isinstance(made.deaths[0], TypeError)


def test_set_up_and_tear_down_run_once_on_the_loop_and_may_be_async(pool: Callable[..., Pool]) -> None:
    """Clients that are bound to a loop are opened and closed on it."""
    said: list[Any] = []

    async def set_up() -> None:
        await asyncio.sleep(0)
        said.append(asyncio.get_running_loop())

    async def tear_down() -> None:
        await asyncio.sleep(0)
        said.append(asyncio.get_running_loop())

    async def work(_lane: Lane) -> None:
        said.append(asyncio.get_running_loop())

    made = pool(4, work, set_up=set_up, tear_down=tear_down)
    made.receive(made.assign(), 0, [b"a"])
    made.wait(lambda: made.ended)
    assert made.workers.stop(LIMIT_S) == []
    assert len(said) == 3
    assert len(set(said)) == 1


def test_a_stuck_report_shows_what_a_suspended_call_awaits(pool: Callable[..., Pool]) -> None:
    """L9: partition, offset and key, then the frames down to the innermost await."""

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
    """L9: 200 suspended calls are no report that anybody reads."""

    async def work(_lane: Lane) -> None:
        await asyncio.Event().wait()

    made = pool(200, work)
    made.receive(made.assign(), 0, [b"k%d" % n for n in range(200)])
    made.wait(lambda: len(made.started) == 200)
    stacks = made.workers.stacks()
    assert len(stacks) == 52
    assert stacks["ehkafka-x-loop …"] == "and 150 calls more\n"


def test_a_stuck_report_shows_where_a_blocking_call_holds_the_loop_up(pool: Callable[..., Pool]) -> None:
    """L9: a call that blocks instead of awaiting is on the thread's own stack."""
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
