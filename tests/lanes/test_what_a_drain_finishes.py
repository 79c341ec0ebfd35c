"""What a drain still finishes: all below the highest started offsets where that fits, else only what runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ehkafka.lanes.cuts import Work
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.lane_bench import LaneBench

from ehkafka.lanes.decision import AwaitHead, HoldHead, RetryHead
from ehkafka.records import Outcome

if TYPE_CHECKING:
    from ehkafka.lanes.decision import Decision


class Asked:
    """Answers whether work fits, and keeps what was asked."""

    def __init__(self, *answers: bool) -> None:
        self.answers = list(answers)
        self.work: list[Work] = []

    def __call__(self, work: Work) -> bool:
        """Give the next answer."""
        self.work.append(work)
        return self.answers.pop(0)


@pytest.mark.parametrize("express", [False, True])
def test_what_is_asked_is_the_work_below_the_highest_started_offsets(*, express: bool) -> None:
    """What runs and what waits below it, of all partitions; what lies above counts nowhere."""
    bench = LaneBench(express=express)
    one, two = bench.assign(0), bench.assign(1)
    bench.receive(one, "a0 a1 a2 b3 c4")
    bench.receive(two, "d0 e1")
    if express:
        bench.dispatcher.express.on = True  # type: ignore[union-attr]
        bench.receive(two, "f2")
    running = [bench.begin_key("b"), bench.begin_key("e")]
    assert all(lane.may_run_head() for lane in running)
    asked = Asked(True)
    assert bench.dispatcher.drain_all([one, two], asked)
    assert asked.work == [Work(records=6, longest_lane_records=3)]
    assert (one.drain_limit, two.drain_limit) == (3, 1)


def test_a_shared_lane_counts_whole_for_the_time_that_it_takes() -> None:
    """A record behind another partition's waits for that one."""
    bench = LaneBench("handler")
    one, two = bench.assign(0), bench.assign(1)
    bench.receive(one, "a0 a1")
    bench.receive(two, "a0 b1")
    running = bench.begin_key("b")
    assert running.may_run_head()
    asked = Asked(True)
    bench.dispatcher.drain_all([two], asked)
    assert asked.work == [Work(records=2, longest_lane_records=3)]


def test_what_does_not_fit_is_left_and_only_what_runs_ends() -> None:
    """Nothing below starts; what is finished above can be reported as ranges."""
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 c2 d3 e4")
    bench.finish(bench.begin_key("b"))
    running = bench.begin_key("d")
    assert running.may_run_head()
    assert not bench.dispatcher.drain_all([assignment], Asked(False))
    running.advance()
    bench.settle(running)
    bench.work()
    assert bench.started == ["b1"]
    assert bench.dispatcher.drained(assignment)
    extent = assignment.extent()
    assert extent is not None
    assert (extent.next_offset, extent.finished()) == (0, ((1, 2), (3, 4)))
    assert bench.dispatcher.end(assignment) == 3
    assert bench.is_empty()


def test_a_drain_that_turns_out_too_long_is_cut_short_later() -> None:
    """Asked again while it goes on, with what is left; the running record still ends."""
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 c2 d3 e4")
    running = bench.begin_key("d")
    assert running.may_run_head()
    asked = Asked(True, False)
    assert bench.dispatcher.drain_all([assignment], asked)
    bench.finish(bench.begin_key("a"))
    assert not bench.dispatcher.drain_all([assignment], asked)
    assert asked.work == [Work(4, 1), Work(3, 1)]
    running.advance()
    bench.settle(running)
    bench.work()
    assert bench.started == ["a0"]
    assert bench.dispatcher.drained(assignment)
    assert assignment.watermark() == 1


@pytest.mark.parametrize("decision", [HoldHead("poison"), RetryHead(60.0, "later")])
def test_a_record_that_fails_during_a_drain_leaves_what_lies_above_it(decision: Decision) -> None:
    """The hole is there now, so only what lies below it still starts."""
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 c2 d3")
    bench.begin_key("d")
    bench.dispatcher.drain_all([assignment], Asked(True))
    bench.fail_head(bench.begin_key("b"), decision)
    asked = Asked(True)
    assert bench.dispatcher.drain_all([assignment], asked)
    # The head of d runs above the hole: what was started ends, wherever it is.
    assert asked.work == [Work(2, 1)]
    bench.work()
    assert bench.started == ["b1", "a0"]
    assert assignment.watermark() == 1


def test_another_partitions_failed_record_is_no_reason_to_leave_this_ones() -> None:
    """Each partition has its own position, so its own limit."""
    bench = LaneBench()
    one, two = bench.assign(0), bench.assign(1)
    bench.receive(one, "a0 b1")
    bench.receive(two, "c0 d1")
    bench.fail_head(bench.begin_key("a"), HoldHead("poison"))
    for key in "bd":
        bench.begin_key(key)
    bench.dispatcher.drain_all([one, two], Asked(True))
    assert (one.drain_limit, two.drain_limit) == (0, 1)


def test_the_key_that_waits_can_be_reported_until_the_epoch_ends() -> None:
    """Held and parked heads above one another stay in place, so that a stop can name each."""
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 b2 c3")
    for key, decision in (("a", HoldHead("poison")), ("b", RetryHead(60.0, "later"))):
        bench.fail_head(bench.begin_key(key), decision)
    bench.dispatcher.drain_all([assignment], Asked(True))
    assert [lane.key for lane in bench.dispatcher.holds.held] == [b"a", b"b"]
    assert bench.dispatcher.drained(assignment)
    assert bench.dispatcher.end(assignment) == 4
    bench.work()
    assert bench.is_empty()


def _diverting(bench: LaneBench, records: str) -> Any:
    """Receive records; the first key's head is parked and its letters are on their way."""
    bench.dispatcher.decisions.divert = lambda _lane, *_reason: AwaitHead(
        "a letter", lambda _ticket: None, "divert_key"
    )
    assignment = bench.assign()
    bench.receive(assignment, records)
    lane = bench.begin()[0]
    bench.fail_head(lane, RetryHead(60.0, "later"))
    bench.dispatcher.decisions.divert_key(lane, "no room")
    return assignment, lane


def test_a_letter_on_its_way_is_started_work_and_its_followers_above_stay() -> None:
    """The drain waits for its answer, which counts; no further letter of the key is begun above."""
    bench = LaneBench()
    assignment, lane = _diverting(bench, "a0 b1 a2")
    bench.finish(bench.begin_key("b"))
    bench.dispatcher.drain_all([assignment], Asked(True))
    assert not bench.dispatcher.drained(assignment)
    ticket = bench.dispatcher.decisions.outbox.popleft()
    bench.dispatcher.decisions.complete(ticket, Outcome.DEAD_LETTERED, 0.0)
    assert not bench.dispatcher.decisions.outbox
    assert bench.dispatcher.drained(assignment)
    assert assignment.watermark() == 2
    assert lane.head is not None
    assert bench.dispatcher.end(assignment) == 1


def test_a_letter_above_all_that_runs_is_the_highest_started() -> None:
    """What lies below it is finished, so that its outcome is committed."""
    bench = LaneBench()
    assignment, _ = _diverting(bench, "a1 b2")
    bench.receive(assignment, "c3")
    bench.dispatcher.drain_all([assignment], asked := Asked(True))
    assert assignment.drain_limit == 1
    assert asked.work == [Work(1, 1)]


@given(
    records=st.integers(0, 10_000),
    longest=st.integers(0, 10_000),
    mean_s=st.floats(0.0, 10.0),
    workers=st.integers(1, 100),
)
def test_the_estimate_is_the_workers_share_or_the_longest_lane(
    records: int, longest: int, mean_s: float, workers: int
) -> None:
    """More workers never make it longer, and no number of them makes one lane shorter."""
    work = Work(records + longest, longest)
    needed_s = work.needs_s(mean_s, workers)
    rounding = 1 + 1e-9
    assert needed_s * rounding >= longest * mean_s
    assert needed_s * rounding >= work.records * mean_s / workers
    assert work.needs_s(mean_s, workers + 1) <= needed_s * rounding
    assert needed_s <= work.records * mean_s * rounding
