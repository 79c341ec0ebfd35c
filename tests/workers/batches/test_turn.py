"""Whose turn it is to collect: few workers while batches are quick, others as soon as one is not."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.lanes.dispatcher import Dispatcher
from ehkafka.workers.batches.exchange import BatchExchange
from ehkafka.workers.batches.share import BatchLimits
from ehkafka.workers.batches.turn import KEPT_S, Turn
from tests.kit.waiting import wait_until
from tests.workers.batches.test_exchange import LIMIT_S, Batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OTHERS = 3


def gate() -> threading.Lock:
    """Return a worker's gate: a locked lock."""
    lock = threading.Lock()
    lock.acquire()
    return lock


def keeping() -> Turn:
    """Return a turn that may be kept."""
    turn = Turn()
    turn.allow(keeping=True)
    return turn


def waiters(turn: Turn, count: int) -> list[tuple[threading.Lock, threading.Thread]]:
    """Have so many workers wait for the turn, one after the other."""
    found = []
    for number in range(1, count + 1):
        own = gate()
        thread = threading.Thread(target=turn.begin, args=(own,), daemon=True)
        thread.start()
        wait_until(lambda number=number: len(turn._waiting) == number)
        found.append((own, thread))
    return found


def test_the_turn_goes_to_the_last_comer() -> None:
    """The others sleep on, so few workers have all that few can do."""
    turn, own = Turn(), gate()
    turn.begin(own)
    (_, first), (second_gate, second) = waiters(turn, 2)
    turn.end(own)
    second.join(LIMIT_S)
    assert first.is_alive()
    turn.end(second_gate)
    first.join(LIMIT_S)
    assert not turn._waiting


def test_who_keeps_the_turn_has_it_still_and_nobody_is_woken() -> None:
    """It collects again without a word to anybody."""
    turn, own = keeping(), gate()
    turn.begin(own)
    ((_, other),) = waiters(turn, 1)
    turn.end(own, kept_since_s=10.0)
    turn.begin(own)
    assert other.is_alive()
    assert turn._keeper is None
    turn.end(own)
    other.join(LIMIT_S)


def test_a_turn_that_is_kept_for_too_long_is_passed_on() -> None:
    """Its worker then waits for its turn like any other."""
    turn, own = keeping(), gate()
    turn.begin(own)
    ((other_gate, other),) = waiters(turn, 1)
    turn.end(own, kept_since_s=10.0)
    assert turn.watch(10.0 + KEPT_S / 2)
    assert other.is_alive()
    assert not turn.watch(10.0 + 2 * KEPT_S)
    other.join(LIMIT_S)
    back = threading.Thread(target=turn.begin, args=(own,), daemon=True)
    back.start()
    wait_until(lambda: len(turn._waiting) == 1)
    turn.end(other_gate)
    back.join(LIMIT_S)


@pytest.mark.parametrize("how", ["leave", "take_away", "held up", "close"])
def test_a_turn_without_anybody_who_waits_is_free_again(how: str) -> None:
    """Its worker leaves while it keeps it, or others are to have it."""
    turn, own, other = keeping(), gate(), gate()
    turn.begin(own)
    turn.end(own, kept_since_s=10.0)
    assert turn._keeper is own
    if how == "leave":
        turn.leave(own)
    elif how == "take_away":
        turn.take_away()
    elif how == "close":
        turn.close()
    else:
        turn.allow(keeping=False)
    turn.begin(other)  # at once
    turn.leave(own)
    assert turn._is_taken


@pytest.mark.parametrize("how", ["nobody watches", "held up", "closed", "closed while held up"])
def test_a_turn_is_kept_only_while_somebody_would_take_it_away(how: str) -> None:
    """Else all others would wait for as long as its batch takes."""
    turn, own, other = Turn() if how == "nobody watches" else keeping(), gate(), gate()
    turn.begin(own)
    if "held up" in how:
        turn.allow(keeping=False)
    if "closed" in how:
        turn.close()
        turn.allow(keeping=True)
    turn.end(own, kept_since_s=10.0)
    turn.begin(other)  # at once


@pytest.fixture
def quick() -> Iterator[Callable[[], Batches]]:
    """Make a pool of quick batches, whose first one is held up; the rest of its records wait."""
    made: list[Batches] = []

    def make() -> Batches:
        pool = Batches(workers=1 + OTHERS, records_max=2, records_min=1)
        made.append(pool)
        pool.exchange.note_watch(is_close=True)
        pool.exchange._is_quick = True
        pool.gate.clear()
        pool.receive(0, 1)
        pool.exchange.wake_one()
        wait_until(lambda: pool.running == 1)
        pool.exchange._is_quick = False  # for those that come: each is passed on at once
        pool.receive(2, 3, 4, 5)
        return pool

    yield make
    for pool in made:
        pool.close()


def test_others_collect_when_a_quick_batch_takes_long(quick: Callable[[], Batches]) -> None:
    """The poll thread sees that it does."""
    pool = quick()
    wait_until(lambda: pool.running == 3, meanwhile=pool.exchange.watch)
    assert not pool.exchange.watch()


def test_others_collect_while_the_poll_thread_is_held_up(quick: Callable[[], Batches]) -> None:
    """In a callback of a rebalance, for example, for a second."""
    pool = quick()
    pool.exchange.note_watch(is_close=False)
    wait_until(lambda: pool.running == 3)


def test_the_poll_thread_goes_on_watching_before_a_turn_is_kept() -> None:
    """It has woken the collector, which has not taken its batch yet, and would wait for 50 ms."""
    limits = BatchLimits(records_max=2, records_min=2, bytes_max=None, wait_s_max=60.0)
    exchange, own = BatchExchange(Dispatcher(), time.monotonic, limits), gate()
    exchange._is_quick = True
    assert not exchange.watch()
    exchange._turn.begin(own)
    assert exchange.watch()
    exchange._publish(own)
    assert not exchange.watch()
    exchange.wake_all()
    assert exchange.watch()


def test_who_waits_for_the_turn_is_idle() -> None:
    """No report shows its stack."""
    pool = Batches(workers=1 + OTHERS)
    wait_until(lambda: len(pool.exchange._turn._waiting) == OTHERS and pool.exchange._waiting is not None)
    assert pool.workers.stacks() == {}
    pool.close()


def test_mutant_a_turn_is_kept_for_as_long_as_its_batch_takes(
    quick: Callable[[], Batches], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All others wait behind one slow batch."""
    monkeypatch.setattr(Turn, "watch", lambda _self, _now_s: True)
    pool = quick()
    for _ in range(20):
        pool.exchange.watch()
        time.sleep(KEPT_S)
    assert pool.running == 1


def busy_at_the_stop(*, kept_before: bool) -> int:
    """Return how many workers do not leave while one is in a quick batch that takes long for once."""
    pool = Batches(workers=1 + OTHERS, records_max=2, records_min=1)
    pool.exchange.note_watch(is_close=True)
    pool.exchange._is_quick = True
    pool.gate.clear()
    pool.receive(0, 1)
    if kept_before:
        pool.exchange.wake_one()
        wait_until(lambda: pool.running == 1)
    left = pool.workers.stop(0.5)
    pool.close()
    return len(left)


@pytest.mark.parametrize("kept_before", [True, False])
def test_a_stop_lets_the_others_leave_while_a_batch_runs(*, kept_before: bool) -> None:
    """They need not wait for it."""
    assert busy_at_the_stop(kept_before=kept_before) == 1


@pytest.mark.parametrize("kept_before", [True, False])
def test_mutant_a_stop_leaves_the_turn_with_whoever_keeps_it(
    monkeypatch: pytest.MonkeyPatch, *, kept_before: bool
) -> None:
    """Nobody can leave before that batch has ended."""
    monkeypatch.setattr(Turn, "take_away", lambda _self: None)
    monkeypatch.setattr(Turn, "close", lambda _self: None)
    assert busy_at_the_stop(kept_before=kept_before) == 1 + OTHERS


def test_fewer_workers_leave_while_one_keeps_the_turn(quick: Callable[[], Batches]) -> None:
    """Those who wait for the turn are woken for it."""
    pool = quick()
    pool.workers.resize(2)
    wait_until(lambda: sum(thread.is_alive() for thread in pool.workers._threads) == 2)
    assert pool.running <= 2


def test_quick_batches_are_run_by_one_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else is woken for them."""
    began: list[str] = []
    take = BatchExchange._take

    def noted(self: Any) -> Any:
        began.append(threading.current_thread().name)
        return take(self)

    pool = Batches(workers=1 + OTHERS, records_max=100, records_min=1)
    pool.exchange.note_watch(is_close=True)
    monkeypatch.setattr("ehkafka.workers.batches.exchange.QUICK_RECORD_S", 1.0)
    wait_until(lambda: pool.exchange._waiting is not None and len(pool.exchange._turn._waiting) == OTHERS)
    monkeypatch.setattr(BatchExchange, "_take", noted)
    for first in range(0, 2_000, 100):
        pool.receive(*range(first, first + 100))
        pool.exchange.wake_one()
        assert pool.wait_for(first + 100)
    # The first batch is passed on: nobody knows yet that it is quick.
    assert len(set(began)) <= 2
    pool.close()
