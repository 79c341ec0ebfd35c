"""Threads with chunks: slow records, slow handlers, sleeping workers, failures, deferred records."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.lanes.decision import AwaitHead
from ehkafka.lanes.express_mode import MEMORY_RECORDS, PAUSE_MIN_S, QUICK_S, SLOW_S, ExpressMode
from ehkafka.records import Outcome
from ehkafka.workers.chunk_watch import STEAL_S, ChunkWatch
from ehkafka.workers.exchange import Exchange
from tests.kit.waiting import wait_until, words_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.lanes.lane import Lane

LIMIT_S = 10.0


def watch_until(pool: Any, done: Callable[[], bool]) -> None:
    """Look as often as the poll thread does."""

    def check() -> None:
        pool.exchange.watch()
        assert not pool.wrong, pool.wrong[0]
        time.sleep(1e-3)

    wait_until(done, lambda: f"{pool.handled} are handled, the rest: {words_of(done)}", meanwhile=check)


def test_a_record_that_blocks_holds_back_only_its_key(pool: Callable[..., Any]) -> None:
    """In a chunk, too: the rest is taken from its worker, and the commit waits for the blocked one."""
    gate = threading.Event()

    def work(lane: Lane) -> None:
        if lane.key == b"slow":
            gate.wait(LIMIT_S)

    made = pool(3, work, express=True)
    assignment = made.assign()
    keys = [b"k%d" % n for n in range(40)]
    made.receive(assignment, 0, [*keys, b"slow", *keys, b"slow", *keys])
    watch_until(made, lambda: made.handled == 120)
    with made.exchange.locked():
        assert assignment.watermark() == 40
    gate.set()
    watch_until(made, lambda: made.handled == 122)
    watch_until(made, lambda: made.dispatcher.backlog_records == 0)
    with made.exchange.locked():
        assert assignment.watermark() == 122


def test_all_but_one_worker_blocked_in_chunks_leaves_one_to_work(pool: Callable[..., Any]) -> None:
    """Three of four workers blocked, one after another: the fourth finishes what is left."""
    gate = threading.Event()

    def work(lane: Lane) -> None:
        if lane.key.startswith(b"slow"):  # type: ignore[attr-defined]
            gate.wait(LIMIT_S)

    made = pool(4, work, express=True)
    assignment = made.assign()
    for number in range(3):
        made.receive(assignment, 51 * number, [b"slow%d" % number, *(b"k%d" % n for n in range(50))])
        watch_until(made, lambda number=number: made.handled == 50 * (number + 1))
    gate.set()
    watch_until(made, lambda: made.handled == 153)


def test_single_records_find_a_worker_without_a_watch(pool: Callable[..., Any]) -> None:
    """Lost wake-ups: one wake a record is enough, 5000 times."""
    made = pool(4, express=True)
    made.exchange.cost_s = 1e-6
    assignment = made.assign()
    for offset in range(5_000):
        made.receive(assignment, offset, [b"k%d" % (offset % 3)])
        made.exchange.wake_one()
        wait_until(
            lambda offset=offset: made.handled > offset,
            "a record lies with idle workers",
            meanwhile=lambda: time.sleep(0),
        )
    assert not made.wrong


def test_a_worker_that_hands_a_chunk_in_while_the_lock_is_taken_goes_on(pool: Callable[..., Any]) -> None:
    """The next chunk is put in line by whoever settles; nobody needs to be woken for it."""
    made = pool(2, express=True)
    assignment = made.assign()
    with made.exchange.locked() as dispatcher:
        pass
    made.receive(assignment, 0, [b"a"])
    with made.exchange.locked() as dispatcher:
        made.exchange.wake_one()
        wait_until(lambda: made.exchange.returned)
        # Behind the one that is handed in: in line only once that is settled.
        batch = [type(dispatcher.express.out.messages[0])("t", 0, n, b"b") for n in range(1, 4)]
        dispatcher.receive(assignment, batch, None, 0.0)
        assert not dispatcher.ready
    wait_until(lambda: made.handled >= 4, "the next chunk lies in line with nobody awake")


def test_a_failed_record_of_a_chunk_is_tried_again_and_its_key_waits(
    pool: Callable[..., Any],
) -> None:
    """One in seven fails once; each key's records come in order, each is handled once in the end."""
    failed: set[int] = set()

    def work(lane: Lane) -> None:
        offset = lane.head.offset()  # type: ignore[union-attr]
        if offset % 7 == 0 and offset not in failed:
            failed.add(offset)
            raise ValueError("once")

    made = pool(3, work, express=True)
    made.forgives = True
    assignment = made.assign()
    for first in range(0, 2_000, 50):
        made.receive(assignment, first, [b"k%d" % (n % 11) for n in range(first, first + 50)])

    def done() -> bool:
        with made.exchange.locked() as dispatcher:
            dispatcher.holds.unpark_due(time.monotonic() + 1.0)
        return bool(made.handled == 2_000)

    watch_until(made, done)
    watch_until(made, lambda: not made.dispatcher.unfinished_records)
    assert len(failed) == 286
    with made.exchange.locked():
        assert assignment.watermark() == 2_000


def test_a_record_that_runs_is_stolen_once_it_takes_long_and_not_before(pool: Callable[..., Any]) -> None:
    """A chunk whose first record has not begun only waits for its thread; virtual time."""
    made = pool(1, express=True)
    made.close()
    exchange, dispatcher = made.exchange, made.dispatcher
    now = [0.0]
    exchange._clock = lambda: now[0]
    made.receive(made.assign(), 0, [b"a", b"b", b"c"])
    chunk = dispatcher.begin()
    for _ in range(5):
        now[0] += 10 * STEAL_S
        exchange.watch()
    assert dispatcher.express.out is chunk
    next(chunk.iterator)
    exchange.watch()
    now[0] += 0.5 * STEAL_S
    exchange.watch()
    assert dispatcher.express.out is chunk
    now[0] += STEAL_S
    exchange.watch()
    assert chunk.lane is not None
    assert len(dispatcher.express.out.messages) == 2


def test_chunks_end_when_records_become_dear_and_come_back_when_they_are_cheap() -> None:
    """Above one bound in the mean lanes, below a lower one chunks again, later after each short trial."""
    mode = ExpressMode()
    mode.note_lanes(1.1 * QUICK_S, 0.0)
    assert not mode.on
    mode.note_lanes(0.9 * QUICK_S, 0.0)
    assert mode.on
    mode.note_chunk(0.9 * SLOW_S * 1_000, 1_000, 0.05)
    assert mode.on
    mode.note_chunk(10e-6 * 4_000, 4_000, 0.1)
    mode.note_chunk(5e-3, 1, 0.1)  # one slow record among many is no slow handler
    assert mode.on
    mode.note_chunk(1.0, 1_000, 0.2)
    assert not mode.on
    mode.note_lanes(1e-6, 0.2 + PAUSE_MIN_S)
    assert not mode.on, "the first trial ended soon"
    mode.note_lanes(1e-6, 0.2 + 2 * PAUSE_MIN_S)
    assert mode.on
    assert MEMORY_RECORDS > 1_000


def test_a_slow_handler_is_run_by_all_workers(pool: Callable[..., Any]) -> None:
    """What takes a millisecond ends the chunks by itself, and runs side by side."""
    made = pool(8, lambda _lane: time.sleep(2e-3), express=True)
    del made.exchange.note_chunk, made.exchange.note_lanes
    made.exchange._mode.on = True
    assignment = made.assign()
    made.receive(assignment, 0, [b"k%d" % n for n in range(400)])
    watch_until(made, lambda: made.handled == 400)
    assert not made.dispatcher.express.on


def _busy(seconds: float) -> None:
    ends_s = time.perf_counter() + seconds
    while time.perf_counter() < ends_s:
        pass


# Records, and what each costs: far below both bounds, above both, in between, a millisecond, quick again.
PHASES = [
    (6_000, 0.0),
    (300, 2 * SLOW_S),
    (600, (QUICK_S + SLOW_S) / 2),
    (150, 1e-3),
    (60, 3e-3),
    (6_000, 0.0),
]


@pytest.mark.parametrize("express", [False, True])
def test_costs_that_cross_every_bound_keep_the_order(pool: Callable[..., Any], express: bool) -> None:
    """Each key in order, no overlap, one in a hundred failing once; with and without chunks."""
    bounds: list[tuple[int, float]] = []
    for records, cost_s in PHASES:
        bounds.append((records + (bounds[-1][0] if bounds else 0), cost_s))
    failed: set[int] = set()

    def work(lane: Lane) -> None:
        offset = lane.head.offset()  # type: ignore[union-attr]
        cost_s = next((cost_s for end, cost_s in bounds if offset < end), 0.0)
        if cost_s >= 1e-3:
            time.sleep(cost_s)
        elif cost_s:
            _busy(cost_s)
        if offset % 100 == 7 and offset not in failed:
            failed.add(offset)
            raise ValueError("once")

    made = pool(6, work, express=express)
    made.forgives = True
    if express:  # decided as in an app
        del made.exchange.note_chunk, made.exchange.note_lanes
        made.dispatcher.express.on = False
    assignment = made.assign()
    total, offset = bounds[-1][0], 0

    def done() -> bool:
        nonlocal offset
        while offset < total and offset - made.handled < 2_000:
            made.receive(assignment, offset, [b"k%d" % (n * n % 41) for n in range(offset, offset + 30)])
            offset += 30
        with made.exchange.locked() as dispatcher:
            dispatcher.holds.unpark_due(time.monotonic() + 1.0)
        return bool(made.handled == offset and offset >= total)

    watch_until(made, done)
    watch_until(made, lambda: not made.dispatcher.unfinished_records)
    assert len(failed) == len(range(7, offset, 100))
    with made.exchange.locked():
        assert assignment.watermark() == offset
    if express:
        assert made.chunk_records > 0


def a_chunk_that_runs(
    pool: Callable[..., Any], *, begun: bool
) -> tuple[Any, Any, list[float], threading.Lock]:
    """Return a pool without threads, its running chunk of three, the time, and an idle worker's gate."""
    made = pool(1, express=True)
    made.close()
    made.exchange.closed = False
    exchange = made.exchange
    now = [0.0]
    exchange._clock = lambda: now[0]
    exchange.cost_s = 1e-6
    made.receive(made.assign(), 0, [b"a", b"b", b"c"])
    chunk = made.dispatcher.begin()
    if begun:
        next(chunk.iterator)
    runner, gate = threading.Lock(), threading.Lock()
    gate.acquire()
    assert not exchange.steps_back(runner)
    assert exchange.publish(gate)
    return made, chunk, now, gate


def is_stolen(pool: Callable[..., Any], *, begun: bool) -> tuple[bool, bool]:
    """Let a chunk stand still for long; tell whether its rest was taken, and an idle worker woken for it."""
    made, chunk, now, gate = a_chunk_that_runs(pool, begun=begun)
    for _ in range(3):
        made.exchange.watch()
        now[0] += 1.1 * STEAL_S
    return made.dispatcher.express.out is not chunk, gate.acquire(blocking=False)


def test_the_rest_of_a_chunk_is_taken_and_somebody_woken_for_it(pool: Callable[..., Any]) -> None:
    """In one look, and never before the first record."""
    assert is_stolen(pool, begun=True) == (True, True)
    assert is_stolen(pool, begun=False) == (False, False)


def test_mutant_a_chunk_is_ended_before_its_first_record(
    pool: Callable[..., Any], mutate: Callable[..., None]
) -> None:
    """A worker that only waits for its turn would lose its chunk again and again."""
    mutate(ChunkWatch, "late", "if seen is not chunk or not started:", "if seen is not chunk:")
    assert is_stolen(pool, begun=False) != (False, False)


def test_mutant_nobody_is_woken_for_what_was_taken(
    pool: Callable[..., Any], mutate: Callable[..., None]
) -> None:
    """The quick worker is held up: without a new one the rest waits behind the slow record."""
    mutate(Exchange, "_watch_chunk", "self._quick_worker = None", "pass")
    assert is_stolen(pool, begun=True) == (True, False)


def wakes_for_an_answer(pool: Callable[..., Any]) -> bool:
    """Answer an awaited record whose key has another one; tell whether an idle worker was woken for that."""
    made = pool(1)
    made.close()
    made.exchange.closed = False
    made.receive(made.assign(), 0, [b"a", b"a"])
    lane = made.dispatcher.begin()
    tickets: list[Any] = []
    lane.decision = AwaitHead("elsewhere", tickets.append)
    made.exchange.returned.append(lane)
    made.exchange.settle()
    gate = threading.Lock()
    gate.acquire()
    assert made.exchange.publish(gate)
    made.exchange.complete(tickets[0], Outcome.FINISHED)
    assert made.dispatcher.ready
    return gate.acquire(blocking=False)


def test_a_settle_that_makes_work_wakes_somebody(pool: Callable[..., Any]) -> None:
    """Whoever settles an answer may be no worker at all."""
    assert wakes_for_an_answer(pool)


def test_mutant_a_settle_wakes_nobody(pool: Callable[..., Any], mutate: Callable[..., None]) -> None:
    """Then the next record of the key lies there until the poll thread looks."""
    mutate(Exchange, "complete", "self.wake_one()", "pass")
    mutate(Exchange, "_wake_for_settled", "self.wake_one()", "pass")
    assert not wakes_for_an_answer(pool)
