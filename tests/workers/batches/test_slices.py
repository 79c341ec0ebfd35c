"""Batches that take chunks: what they take, what waits behind them, and what becomes of them."""

from __future__ import annotations

from typing import Any

import pytest

from ehkafka.lanes.chunk import Chunk
from ehkafka.lanes.running import is_running
from ehkafka.records import Outcome
from ehkafka.workers.batches.due import LATE_S
from ehkafka.workers.batches.share import Share
from tests.workers.batches.plan_bench import PlanBench, offsets


def bench_of(**limits: Any) -> PlanBench:
    """Return a bench whose batches take chunks and wait for nothing."""
    return PlanBench(slices=True, **{"records_min": 1, **limits})


def test_a_batch_has_records_as_they_came_and_ends_in_one_step() -> None:
    """No lane is made; all of it counts as finished, and as run in a chunk."""
    bench = bench_of()
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 a2")
    parts = bench.take()
    assert offsets(parts) == [0, 1, 2]
    assert not assignment.lanes
    assert assignment.watermark() == 0
    bench.finish_all(parts)
    assert assignment.watermark() == 3
    assert (assignment.finished_records, bench.dispatcher.chunk_records) == (3, 3)
    assert bench.is_empty()


def test_a_batch_takes_what_it_has_room_for_from_all_partitions() -> None:
    """In turn; what has no room comes first the next time, and chunks of one partition go together."""
    bench = bench_of(records_max=4)
    first, second = bench.assign(0), bench.assign(1)
    bench.receive(first, "a0 b1")
    bench.receive(second, "a0 b1 c2")
    assert offsets(bench.take()) == [0, 1, 0, 1]
    bench.receive(first, "a2")
    assert bench.take() == []


def test_what_waits_is_one_batch_however_it_came() -> None:
    """Records of many small receives go together."""
    bench = bench_of(records_max=1_500)
    assignment = bench.assign()
    for offset in range(1_200):
        bench.receive(assignment, f"a{offset}")
    parts = bench.take()
    assert len(parts) == 1
    assert offsets(parts) == list(range(1_200))


def test_no_second_batch_has_records_of_a_partition_whose_chunk_runs() -> None:
    """They may have its keys; another partition's go on."""
    bench = bench_of(records_max=2)
    first, second = bench.assign(0), bench.assign(1)
    bench.receive(first, "a0 b1 c2")
    running = bench.take()
    assert bench.take() == []
    bench.receive(second, "a0")
    other = bench.take()
    assert offsets(other) == [0]
    bench.finish_all(running)
    assert offsets(bench.take()) == [2]


def test_records_go_behind_the_lane_of_their_key() -> None:
    """A chunk's other records go without them."""
    bench = bench_of()
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1")
    bench.end(bench.take(), lambda message: None if message.key() == b"a" else Outcome.FINISHED)
    busy = bench.take()
    assert offsets(busy) == [0]
    bench.receive(assignment, "a2 c3 a4")
    assert offsets(bench.take()) == [3]
    bench.finish_all(busy)
    assert offsets(bench.take()) == [2, 4]


def test_a_long_batch_keeps_only_its_own_keys() -> None:
    """After a while its records get lanes, and what is behind goes on; nothing of it is lost by that."""
    bench = bench_of()
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 a2")
    running = bench.take()
    bench.receive(assignment, "a3 c4")
    assert bench.wait_s() == pytest.approx(LATE_S)
    bench.now_s = LATE_S
    assert bench.wait_s() == 0.0
    assert offsets(bench.take()) == [4]
    assert {key: lane.running for key, lane in assignment.lanes.items()} == {b"a": 2, b"b": 1}
    bench.finish_all(running)
    assert assignment.finished_records == 3
    assert assignment.watermark() == 3
    assert offsets(bench.take()) == [3]


def test_a_long_batch_gets_no_lanes_for_too_few_records() -> None:
    """What is behind it goes when it is enough, or has waited."""
    bench = bench_of(records_max=2, records_min=2, wait_s_max=1.0)
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1")
    bench.take()
    bench.receive(assignment, "c2")
    bench.now_s = LATE_S
    assert bench.wait_s() == pytest.approx(1.0 - LATE_S)
    bench.receive(assignment, "d3")
    assert bench.wait_s() == 0.0


def test_a_record_that_fails_is_separated_from_its_batch() -> None:
    """Each key has its own share; places say where its records stood."""
    bench = bench_of()
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 a2 c3")
    shares = bench.plan.separate(bench.take())
    assert {share.lane.key: (offsets([share]), list(share.places)) for share in shares} == {
        b"a": ([0, 2], [0, 2]),
        b"b": ([1], [1]),
        b"c": ([3], [3]),
    }
    bench.end(list(shares), lambda message: None if message.key() == b"a" else Outcome.FINISHED)
    assert assignment.watermark() == 0
    again = bench.take()
    assert offsets(again) == [0, 2]
    bench.finish_all(again)
    assert bench.is_empty()


def test_a_drain_waits_for_the_batch_that_runs_and_returns_the_rest() -> None:
    """What runs is finished below it; what waits behind is the next owner's."""
    bench = bench_of(records_max=2)
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 a2 c3")
    running = bench.take()
    bench.dispatcher.drain(assignment, below_started=True)
    assert (assignment.drain_limit, assignment.returned_records) == (1, 2)
    assert not bench.dispatcher.drained(assignment)
    assert bench.take() == []
    bench.finish_all(running)
    assert bench.dispatcher.drained(assignment)
    assert assignment.watermark() == 2
    bench.dispatcher.end(assignment)
    assert bench.is_empty()


def test_an_epoch_that_ends_under_a_batch_makes_its_result_stale() -> None:
    """Nothing of it counts, and the next epoch is not touched."""
    bench = bench_of()
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1")
    running = bench.take()
    assert bench.dispatcher.end(assignment) == 2
    bench.assign()
    bench.finish_all(running)
    assert bench.dispatcher.stale_records == 2
    assert bench.dispatcher.finished_records == 0
    assert bench.is_empty()


def test_a_pause_gives_lanes_to_all() -> None:
    """A key that is paused runs no more; what runs of it ends first."""
    bench = bench_of(records_max=2)
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 a2 c3")
    running = bench.take()
    bench.dispatcher.holds.pause_key(b"a")
    assert offsets(bench.take()) == [3]
    bench.finish_all(running)
    assert assignment.watermark() == 2
    assert bench.take() == []
    bench.dispatcher.holds.resume_key(b"a")
    assert offsets(bench.take()) == [2]


def test_what_runs_in_a_batch_is_known() -> None:
    """Of each key the first record, and of each record whether it runs."""
    bench = bench_of(records_max=3)
    assignment = bench.assign()
    messages = bench.receive(assignment, "a0 b1 a2 c3")
    assert not list(bench.slices.in_flight(assignment))
    bench.take()
    assert [(message.offset(), key) for message, key in bench.slices.in_flight(assignment)] == [
        (0, b"a"),
        (1, b"b"),
    ]
    assert [is_running(bench.dispatcher, message, message.key()) for message in messages] == [
        True,
        True,
        True,
        False,
    ]


def test_handlers_that_become_slow_have_lanes_alone() -> None:
    """What waits is spread, and later records, too."""
    bench = bench_of(records_max=2)
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 c2")
    running = bench.take()
    assert isinstance(running[0], Chunk)
    bench.slices.on = False
    bench.finish_all(running)
    bench.receive(assignment, "d3")
    parts = bench.take()
    assert all(isinstance(part, Share) for part in parts)
    assert offsets(parts) == [2, 3]


def test_what_waits_when_a_handler_became_slow_gets_lanes_before_anybody_asks() -> None:
    """The collector looks at lanes that are ready: more is spread as they become few, in turn."""
    bench = bench_of()
    first, second = bench.assign(0), bench.assign(1)
    bench.receive(first, "a0 b1")
    bench.receive(second, "a0")
    bench.slices.ready_lanes_min = 2
    bench.slices.on = False
    bench.slices.go_on()
    assert [lane.head.offset() for lane in bench.dispatcher.ready if lane.head] == [0, 1]
    assert (len(first.chunks), len(second.chunks)) == (0, 1)
    bench.finish_all(bench.take())
    assert [lane.assignment for lane in bench.dispatcher.ready] == [second]
    assert not bench.slices.waits


def test_what_waits_behind_a_batch_is_spread_when_that_has_ended() -> None:
    """Not before: it may have the batch's keys."""
    bench = bench_of(records_max=2)
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 a2 c3")
    running = bench.take()
    bench.slices.on = False
    bench.slices.go_on()
    assert not bench.dispatcher.ready
    bench.finish_all(running)
    assert [lane.head.offset() for lane in bench.dispatcher.ready if lane.head] == [2, 3]
