"""What goes into a batch and when: the pure plan, without threads."""

from __future__ import annotations

import pytest

from tests.workers.batches.plan_bench import PlanBench, many, offsets

# --- when ----------------------------------------------------------------------------------------------


def test_nothing_waits_for_nothing() -> None:
    """Without a ready lane there is no time to wait for."""
    bench = PlanBench()
    assert bench.wait_s() is None
    bench.assign()
    assert bench.wait_s() is None
    assert bench.take() == []


def test_a_batch_waits_until_it_is_full_or_its_first_record_is_old_enough() -> None:
    """The wait counts from when the first record was received, not from when somebody looked."""
    bench = PlanBench(records_max=3, wait_s_max=2.0)
    assignment = bench.assign()
    bench.now_s = 10.0
    bench.receive(assignment, "a0")
    bench.now_s = 11.5
    bench.receive(assignment, "b1")
    assert bench.wait_s() == pytest.approx(0.5)
    bench.now_s = 12.0
    assert bench.wait_s() == 0.0
    bench.now_s = 11.6
    bench.receive(assignment, "a2")
    assert bench.wait_s() == 0.0


def test_min_records_are_enough_to_go() -> None:
    """With records_min=2 a batch does not wait for the ten that it may have."""
    bench = PlanBench(records_min=2)
    assignment = bench.assign()
    bench.receive(assignment, "a0")
    assert bench.wait_s() == 1.0
    bench.receive(assignment, "a1")
    assert bench.wait_s() == 0.0


def test_max_bytes_are_enough_to_go() -> None:
    """Large records make a batch go before they are many."""
    bench = PlanBench(bytes_max=100)
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1", value=b"x" * 49)
    assert bench.wait_s() == 1.0
    bench.receive(assignment, "c2", value=b"xx")
    assert bench.wait_s() == 0.0


def test_records_of_running_lanes_are_not_counted_as_there() -> None:
    """What another batch has, and what is behind it, cannot fill this one."""
    bench = PlanBench(records_max=3)
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 c2 a3 a4 a5")
    bench.take()
    bench.receive(assignment, "d6 a7")
    assert bench.wait_s() == 1.0


@pytest.mark.parametrize("why", ["hurried", "halted"])
def test_a_stop_or_a_revoke_waits_for_no_more(why: str) -> None:
    """Whoever drains gets nothing more to fill a batch with."""
    bench = PlanBench()
    assignment, other = bench.assign(0), bench.assign(1)
    bench.receive(other, "a0 b1")
    assert bench.wait_s() == 1.0
    if why == "hurried":
        bench.plan.due.is_hurried = True
    else:
        bench.dispatcher.drain(assignment, below_started=True)
    assert bench.wait_s() == 0.0


# --- what ----------------------------------------------------------------------------------------------


def test_a_batch_has_each_key_in_order_and_no_lane_twice() -> None:
    """Overlapping batches never share a lane."""
    bench = PlanBench(records_max=4)
    bench.receive(bench.assign(), "a0 b1 a2 c3 b4 a5")
    one = bench.take()
    assert offsets(one) == [0, 2, 1, 3]
    assert bench.take() == []
    bench.end(one)
    assert offsets(bench.take()) == [5, 4]


def test_max_bytes_bounds_a_batch_and_a_larger_record_goes_alone() -> None:
    """The lanes that found no room keep their places and come first in the next batch."""
    bench = PlanBench(bytes_max=10)
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1", value=b"x" * 4)
    bench.receive(assignment, "c2", value=b"x" * 50)
    bench.receive(assignment, "d3 e4 a5", value=b"x" * 4)
    assert bench.run_all() == [[0, 1], [2], [3, 4], [5]]
    assert bench.is_empty()


def test_what_is_left_of_max_bytes_goes_to_those_that_have_more() -> None:
    """Filling up minds the bytes, too."""
    bench = PlanBench(bytes_max=10, records_max=100)
    bench.receive(bench.assign(), f"{many('a', 0, 5)} b5", value=b"x" * 3)
    assert offsets(bench.take()) == [0, 1, 5]


def test_a_hot_key_shares_each_batch_with_the_others() -> None:
    """Every ready key is in the next batch with an equal part; who has more fills what is left."""
    bench = PlanBench(records_max=9)
    bench.receive(bench.assign(), f"{many('h', 0, 100)} a100 b101")
    first = bench.take()
    assert offsets(first) == [0, 1, 2, 3, 4, 5, 6, 100, 101]


def test_more_keys_than_a_batch_can_have_come_in_turn() -> None:
    """A hot key and 50 others, ten a batch: all have had a turn after six, the hot one no second."""
    bench = PlanBench(records_max=10)
    cool = " ".join(f"{chr(200 + n)}{100 + n}" for n in range(50))
    bench.receive(bench.assign(), f"{many('h', 0, 100)} {cool}")
    batches = []
    for _ in range(6):
        shares = bench.take()
        batches.append(offsets(shares))
        bench.end(shares)
    seen = [offset for batch in batches for offset in batch]
    assert sorted(o for o in seen[:51]) == [0, *range(100, 150)]
    assert seen[51:] == list(range(1, 10))  # the last batch had room


def test_lanes_that_were_cut_while_they_waited_are_freed_on_the_way() -> None:
    """A revoke leaves their names in the ready queue; no batch is made of them."""
    bench = PlanBench()
    gone, stays = bench.assign(0), bench.assign(1)
    bench.receive(gone, "a0 b1")
    bench.receive(stays, "c0")
    bench.dispatcher.drain(gone, below_started=False)
    bench.dispatcher.end(gone)
    assert bench.wait_s() == 0.0 or bench.wait_s() == 1.0
    assert bench.run_all() == [[0]]
    assert bench.wait_s() is None
    assert bench.is_empty()


def test_a_shared_lane_gives_one_record() -> None:
    """The next one may be another partition's."""
    bench = PlanBench("handler")
    one, two = bench.assign(0), bench.assign(1)
    bench.receive(one, "a0 a1 b2")
    bench.receive(two, "a0 c1")
    assert bench.run_all() == [[0, 2, 1], [1], [0]]
    assert (one.watermark(), two.watermark()) == (3, 2)
    assert bench.is_empty()


def test_a_lane_that_was_cut_counts_for_nothing() -> None:
    """It stands in the ready queue without a record when its epoch has ended; others are counted."""
    bench = PlanBench(bytes_max=10)
    gone, other = bench.assign(0), bench.assign(1)
    bench.receive(gone, "a0", value=b"x")
    bench.receive(other, "b0", value=b"xxxxx")
    bench.dispatcher.end(gone)
    assert bench.wait_s() == 1.0
    bench.receive(other, "c1", value=b"xxxxx")
    assert bench.wait_s() == 0.0
    assert offsets(bench.take()) == [0, 1]
