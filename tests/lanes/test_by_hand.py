"""What somebody does by hand: pauses of one assignment or of all, whole lanes skipped, letters sent."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.lane_bench import LaneBench

from ehkafka.lanes.decision import AwaitHead, HoldHead, RetryHead
from ehkafka.records import Outcome


def test_a_pause_of_one_assignment_leaves_the_others_alone() -> None:
    """And ends with it."""
    bench = LaneBench()
    first, second = bench.assign(0), bench.assign(1)
    holds = bench.dispatcher.holds
    assert holds.pause_key(b"a", first)
    assert not holds.pause_key(b"a", first)
    bench.receive(first, "a0 b1")
    bench.receive(second, "a0")
    bench.work()
    assert sorted(bench.started) == ["a0", "b1"]
    assert not holds.resume_key(b"a", second)
    bench.dispatcher.end(first)
    assert holds.paused_keys == {}
    bench.receive(bench.assign(0), "a0")
    bench.work()
    assert sorted(bench.started) == ["a0", "a0", "b1"]


def test_a_resume_of_one_assignment_leaves_the_others_paused() -> None:
    """Each has its own."""
    bench = LaneBench()
    first, second = bench.assign(0), bench.assign(1)
    holds = bench.dispatcher.holds
    for assignment in (first, second):
        holds.pause_key(b"a", assignment)
        bench.receive(assignment, "a0")
    assert holds.resume_key(b"a", first)
    assert len(bench.begin(5)) == 1
    assert holds.resume_key(b"a", second)
    assert len(bench.begin(5)) == 1


@pytest.mark.parametrize("express", [False, True])
def test_everything_is_paused_and_goes_on(express: bool) -> None:
    """Ready lanes, chunks, what runs once it is handed in, and what comes later."""
    bench = LaneBench(express=express)
    if express:
        assert bench.dispatcher.express is not None
        bench.dispatcher.express.on = True
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 a2")
    holds = bench.dispatcher.holds
    assert holds.pause_all()
    assert not holds.pause_all()
    bench.receive(assignment, "c3")
    bench.work()
    assert bench.started == []
    assert bench.dispatcher.parked_records == 4
    holds.pause_key(b"c", assignment)
    assert holds.resume_all()
    assert not holds.resume_all()
    bench.work()
    assert sorted(bench.started) == ["a0", "a2", "b1"]
    holds.resume_key(b"c", assignment)
    bench.work()
    assert bench.is_empty()


def test_a_lane_that_runs_while_everything_is_paused_stops_at_its_hand_in() -> None:
    """Its retry's time ends nothing either."""
    bench = LaneBench()
    bench.receive(bench.assign(), "a0 a1 b2")
    lane, failing = bench.begin_key("a"), bench.begin_key("b")
    bench.dispatcher.holds.pause_all()
    bench.finish(lane, records=1)
    bench.fail_head(failing, RetryHead(1.0, "later"))
    bench.dispatcher.holds.unpark_due(5.0)
    assert bench.begin(5) == []
    bench.dispatcher.holds.resume_all()
    assert len(bench.begin(5)) == 2


def test_unopened_lanes_of_a_paused_handler_wait_for_both() -> None:
    """Neither the opening nor the start alone lets them go."""
    bench = LaneBench()
    assignment = bench.assign(opened=False)
    bench.receive(assignment, "a0")
    bench.dispatcher.holds.pause_all()
    bench.dispatcher.open(assignment)
    assert bench.begin() == []
    bench.dispatcher.holds.resume_all()
    assert len(bench.begin()) == 1


def test_a_drain_does_not_wait_for_what_is_paused() -> None:
    """It cannot run; the next owner handles it."""
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1")
    bench.dispatcher.holds.pause_all()
    bench.dispatcher.drain(assignment, below_started=True)
    assert bench.dispatcher.drained(assignment)
    assert bench.dispatcher.end(assignment) == 2


@pytest.mark.parametrize("scope", ["partition", "handler"])
@pytest.mark.parametrize(("records", "left"), [(1, 3), (3, 1), (9, 0)])
def test_records_of_a_held_lane_are_skipped_in_one_go(scope: Any, records: int, left: int) -> None:
    """No worker sees those between; the rest of the key goes on."""
    bench = LaneBench(scope)
    assignment = bench.assign()
    bench.receive(assignment, "a0 a1 a2 a3")
    bench.fail_head(bench.begin()[0], HoldHead("poison"))
    bench.started.clear()
    assert bench.dispatcher.holds.skip_key(b"a", assignment, records) == 1
    assert assignment.skipped_records == 4 - left
    bench.work()
    assert bench.started == ["a0", "a1", "a2", "a3"][4 - left :]
    assert bench.is_empty()


def _sent(bench: LaneBench, records: int, after: Any = "continue") -> Any:
    """Send records of the held key `a` by hand; return its lane, and what answers the next letter."""
    decisions = bench.dispatcher.decisions
    reasons: list[str] = []

    def divert(_lane: Any, reason: str = "follows") -> AwaitHead:
        reasons.append(reason)
        return AwaitHead("a letter", lambda _ticket: None, after)

    decisions.divert = divert
    lane = bench.begin_key("a")
    bench.fail_head(lane, RetryHead(60.0, "later"))
    decisions.send_by_hand(lane, "by hand", records)

    def answer(what: Any) -> None:
        decisions.complete(decisions.outbox.popleft(), what, bench.now_s)

    return lane, answer, reasons


def test_letters_by_hand_go_one_after_another_and_the_rest_runs() -> None:
    """As many as were asked for, each with the reason; the lane is on hold meanwhile."""
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 a1 a2")
    lane, answer, reasons = _sent(bench, 2)
    for _ in range(2):
        assert lane in bench.dispatcher.holds.held
        answer(Outcome.DEAD_LETTERED)
    assert reasons == ["by hand", "by hand"]
    assert assignment.dead_lettered_records == 2
    bench.work()
    assert bench.started == ["a0", "a2"]
    assert bench.is_empty()


@pytest.mark.parametrize("after", ["hold_key", "divert_key"])
def test_after_a_letter_by_hand_the_key_does_what_its_policy_says(after: Any) -> None:
    """It waits, or follows; the last record leaves nothing on hold."""
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 a1")
    lane, answer, _ = _sent(bench, 1, after)
    answer(Outcome.DEAD_LETTERED)
    assert assignment.after_letter == {b"a": after}
    if after == "hold_key":
        assert lane in bench.dispatcher.holds.held
    else:
        answer(Outcome.DEAD_LETTERED)
        assert bench.is_empty()


def test_a_letter_by_hand_that_nobody_takes_leaves_its_record_on_hold() -> None:
    """And the others behind it."""
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 a1")
    lane, answer, _ = _sent(bench, 2)
    answer(HoldHead("refused"))
    assert bench.dispatcher.holds.held[lane].decision.reason == "refused"
    assert not bench.dispatcher.decisions.outbox
    assert assignment.watermark() == 0


def test_an_answer_after_a_retry_by_hand_counts_for_nothing() -> None:
    """Whoever let the lane go has ended the sending, too."""
    bench = LaneBench()
    bench.receive(bench.assign(), "a0 a1")
    lane, answer, _ = _sent(bench, 2)
    assert bench.dispatcher.holds.retry_key(b"a") == 1
    answer(Outcome.DEAD_LETTERED)
    assert lane.head is not None
    assert lane.head.offset() == 0
    bench.work()
    assert bench.started == ["a0", "a0", "a1"]


def test_letters_by_hand_take_no_record_that_came_later() -> None:
    """Not even where one of those that were to go went with its partition."""
    bench = LaneBench("handler")
    one, two = bench.assign(0), bench.assign(1)
    for assignment, record in ((one, "a0"), (two, "a0"), (one, "a1")):
        bench.receive(assignment, record)
    _, answer, _ = _sent(bench, 3)
    bench.dispatcher.end(two)
    bench.receive(one, "a2")
    for _ in range(2):
        answer(Outcome.DEAD_LETTERED)
    assert one.dead_lettered_records == 2
    assert not bench.dispatcher.decisions.outbox
    bench.started.clear()
    bench.work()
    assert bench.started == ["a2"]
    assert bench.is_empty()


@pytest.mark.parametrize("scope", ["partition", "handler"])
def test_a_pause_of_all_keeps_nothing_of_lanes_that_were_cut(scope: Any) -> None:
    """They may stand in line still, with nothing in them."""
    bench = LaneBench(scope)
    assignment = bench.assign()
    bench.receive(assignment, "a0")
    bench.dispatcher.end(assignment)
    holds = bench.dispatcher.holds
    holds.pause_all()
    holds.pause_key(b"a")
    assert not holds.held
    holds.resume_all()
    holds.resume_key(b"a")
    assert bench.is_empty()
