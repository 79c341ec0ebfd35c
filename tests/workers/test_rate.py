"""The rate limit: how many calls start in any stretch of time, and that nobody spins or sleeps on a lane."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest

from ehkafka.records import TopicPartition
from ehkafka.testing.clock import VirtualClock
from ehkafka.workers.exchange import Exchange
from ehkafka.workers.rate import Pace, PacedDispatcher, TokenBucket
from tests.kit.simulated.message import SimulatedMessage
from tests.kit.waiting import wait_until

PARTITION = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("rate_per_s", "burst_records"), [(100.0, 1), (3.0, 7), (0.01, 1), (12_345.6, 1_000)]
)
def test_no_stretch_of_time_lets_more_through_than_the_burst_and_the_rate(
    rate_per_s: float, burst_records: int
) -> None:
    """Random looks at random times: in any t seconds at most burst + rate × t."""
    rng = random.Random(7)
    bucket = TokenBucket(rate_per_s, burst_records)
    now_s, taken = 1e6, []
    for _ in range(3_000):
        now_s += rng.choice(
            (0.0, rng.random() / rate_per_s, 5 * burst_records / rate_per_s * rng.random() ** 8)
        )
        if bucket.take(now_s):
            taken.append(now_s)
    for first in range(len(taken)):
        for last in range(first, min(len(taken), first + 3 * burst_records + 10)):
            allowed = burst_records + rate_per_s * (taken[last] - taken[first])
            assert last - first + 1 <= allowed + 1e-6 * rate_per_s


def test_whoever_comes_when_a_token_is_due_gets_it() -> None:
    """The time that is reported is exact: nobody is woken in vain, and the whole rate gets through."""
    bucket = TokenBucket(7.0, 3)
    assert [bucket.take(10.0) for _ in range(4)] == [True, True, True, False]
    for number in range(1, 1_000):
        due_s = bucket.due_s
        assert due_s == pytest.approx(10.0 + number / 7.0)
        assert not bucket.take(due_s - 1e-6)
        assert bucket.take(due_s)


def test_a_rest_fills_the_bucket_no_further_than_its_burst() -> None:
    """Also after a day; and a token that was given back is there again."""
    bucket = TokenBucket(10.0, 2)
    assert [bucket.take(86_400.0) for _ in range(3)] == [True, True, False]
    bucket.give_back()
    assert [bucket.take(86_400.0) for _ in range(2)] == [True, False]


def paced(rate_per_s: float, clock: VirtualClock, records: int) -> tuple[Any, Any]:
    """Return a dispatcher with a rate limit and ready lanes, and its exchange."""
    pace = Pace(rate_per_s, clock.now_s)
    dispatcher = PacedDispatcher("partition", pace)
    assignment = dispatcher.assign(PARTITION, 1)
    batch = [SimulatedMessage("t", 0, n, b"k%d" % n) for n in range(records)]
    dispatcher.receive(assignment, batch, [message.key() for message in batch], clock.now_s())
    return dispatcher, Exchange(dispatcher, clock.now_s, pace)


def test_lanes_stay_ready_while_the_bucket_is_empty() -> None:
    """No lane is lent, nobody is asked to look again at once, and the next due time is known."""
    clock = VirtualClock()
    dispatcher, exchange = paced(20.0, clock, 5)
    lent = [dispatcher.begin() for _ in range(3)]
    assert [lane is not None for lane in lent] == [True, True, False]
    assert len(dispatcher.ready) == 3
    gate = threading.Lock()
    gate.acquire()
    assert exchange.publish(gate)
    assert exchange.watch() is False
    assert gate.locked()
    assert exchange.next_due_s() == pytest.approx(clock.now_s() + 0.05)
    clock.advance(0.05)
    assert exchange.next_due_s() is None
    exchange.watch()
    assert not gate.locked(), "nobody was woken"
    assert dispatcher.begin() is not None


def test_the_burst_is_a_tenth_of_a_second() -> None:
    """One at least: else a low rate would never let anything through."""
    for rate_per_s, burst in ((100.0, 10), (0.5, 1), (15.0, 2)):
        dispatcher, _ = paced(rate_per_s, VirtualClock(), 50)
        assert sum(dispatcher.begin() is not None for _ in range(50)) == burst


def test_without_ready_lanes_no_token_is_used() -> None:
    """Workers that look in vain must not slow the next records down."""
    clock = VirtualClock()
    dispatcher, exchange = paced(1.0, clock, 1)
    assert dispatcher.begin() is not None
    clock.advance(1.0)
    assert [dispatcher.begin() for _ in range(100)] == [None] * 100
    assert exchange.next_due_s() is None
    assignment = dispatcher.assignments[PARTITION]
    dispatcher.receive(assignment, [SimulatedMessage("t", 0, 1, b"a")], [b"a"], clock.now_s())
    assert dispatcher.begin() is not None


def test_a_worker_without_a_token_sleeps_instead_of_spinning() -> None:
    """Ready lanes alone are no reason to look again; with a token they are."""
    clock = VirtualClock()
    dispatcher, exchange = paced(1.0, clock, 3)
    dispatcher.begin()
    gate = threading.Lock()
    gate.acquire()
    idle_worker = threading.Thread(target=exchange.sleep, args=(gate,))
    idle_worker.start()
    wait_until(lambda: exchange._idle_gates)
    exchange.wake_one()
    assert exchange._idle_gates
    clock.advance(1.0)
    exchange.watch()
    idle_worker.join(5.0)
    assert not idle_worker.is_alive()
