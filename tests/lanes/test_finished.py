"""What is finished above the watermark: exactly what was received and is with nobody."""

from __future__ import annotations

from typing import Any

import pytest

from ehkafka.lanes.decision import HoldHead
from ehkafka.lanes.finished import FinishedBefore
from ehkafka.records import TopicPartition
from tests.kit.lane_bench import LaneBench

P0 = TopicPartition("t", 0)


def finished(assignment: Any) -> tuple[tuple[int, int], ...]:
    """Return the ranges above the watermark."""
    extent = assignment.extent()
    assert extent is not None
    return extent.finished()


@pytest.fixture(params=["partition", "handler"])
def bench(request: pytest.FixtureRequest) -> LaneBench:
    """Return a bench with lanes of either scope."""
    return LaneBench(request.param)


def test_what_lanes_hold_is_not_finished(bench: LaneBench) -> None:
    """Heads that run, that are ready, and their followers; the rest is."""
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 c2 a3 d4 e5")
    for key in "bde":
        bench.finish(bench.begin_key(key))
    bench.begin_key("c")
    assert finished(assignment) == ((1, 2), (4, 6))


def test_nothing_received_or_nothing_unfinished_has_no_ranges(bench: LaneBench) -> None:
    """Then the position says all."""
    assignment = bench.assign()
    assert assignment.extent() is None
    bench.receive(assignment, "a0 b1")
    for lane in bench.begin(2):
        bench.finish(lane)
    assert finished(assignment) == ()


def test_held_lanes_are_not_finished(bench: LaneBench) -> None:
    """A held head and the followers parked with it."""
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 a2 d3")
    bench.fail_head(bench.begin_key("a"), HoldHead("failed"))
    for key in "bd":
        bench.finish(bench.begin_key(key))
    bench.receive(assignment, "a4 c5")
    assert finished(assignment) == ((1, 2), (3, 4))


def test_holes_in_the_log_join_ranges() -> None:
    """What the log does not hold needs no room of its own."""
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 b10 c20 d30")
    for key in "bd":
        bench.finish(bench.begin_key(key))
    assert finished(assignment) == ((1, 20), (21, 31))


def test_chunks_are_unfinished_from_the_record_that_runs_on() -> None:
    """What is in chunks has no lane, and is no more finished for that."""
    bench = LaneBench(express=True)
    assert bench.dispatcher.express is not None
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 c2")
    bench.finish(bench.begin_key("b"))
    bench.dispatcher.express.on = True
    bench.receive(assignment, "d3 a4 e5")
    assert finished(assignment) == ((1, 2),)
    bench.finish(bench.begin_key("c"))
    assert finished(assignment) == ((1, 3),)


def test_what_a_drain_returned_is_not_finished(bench: LaneBench) -> None:
    """At a revoke, what was cut is in no lane any more: the last commit must not call it finished."""
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 c2 d3 e4")
    for key in "bd":
        bench.finish(bench.begin_key(key))
    bench.dispatcher.drain(assignment, below_started=False)
    assert assignment.returned_records == 3
    assert finished(assignment) == ((1, 2), (3, 4))


def test_returned_chunks_are_not_finished() -> None:
    """The same of records that had no lane yet."""
    bench = LaneBench(express=True)
    assert bench.dispatcher.express is not None
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1")
    bench.finish(bench.begin_key("b"))
    bench.dispatcher.express.on = True
    bench.receive(assignment, "c2 d3")
    bench.dispatcher.drain(assignment, below_started=False)
    assert finished(assignment) == ((1, 2),)


def test_restored_ranges_stay_until_their_records_were_received() -> None:
    """A second crash before that must not forget them; joined with what this epoch has finished."""
    bench = LaneBench()
    before = FinishedBefore([(1, 4), (6, 9)], leader_epoch=3)
    assignment = bench.dispatcher.assign(P0, 1, finished_before=before)
    assignment.received_next = 0
    extent = assignment.extent()
    assert extent is not None
    assert extent.finished() == ((1, 4), (6, 9))
    assert extent.finished_leader_epoch() == 3
    bench.receive(assignment, "a0 b1 c2", leader_epoch=3)
    assert finished(assignment) == ((1, 4), (6, 9))
    bench.receive(assignment, "d3 e4 f5 g6 h7 i8", leader_epoch=3)
    assert assignment.finished_before is None
    assert finished(assignment) == ((1, 4), (6, 9))
    assert assignment.restored_records == 6


def test_a_record_of_a_newer_leader_is_another_one() -> None:
    """The log was cut within the ranges and written anew: what came since runs."""
    bench = LaneBench()
    before = FinishedBefore([(1, 9)], leader_epoch=3)
    assignment = bench.dispatcher.assign(P0, 1, finished_before=before)
    bench.receive(assignment, "a0 b1 c2", leader_epoch=3)
    messages = bench.receive(assignment, "d3 e4", leader_epoch=4)
    assert before.is_refuted(messages)
    assert assignment.finished_before is None
    assert assignment.restored_records == 2
    assert {lane.key for lane in bench.begin(9)} == {b"a", b"d", b"e"}


def test_ranges_find_their_offsets() -> None:
    """Membership and what lies above an offset."""
    before = FinishedBefore([(2, 4), (7, 8)])
    assert [offset for offset in range(10) if offset in before] == [2, 3, 7]
    assert list(before.above(0)) == [(2, 4), (7, 8)]
    assert list(before.above(3)) == [(3, 4), (7, 8)]
    assert list(before.above(4)) == [(7, 8)]
    assert list(before.above(8)) == []
