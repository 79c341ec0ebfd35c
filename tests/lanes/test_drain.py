"""The end of an epoch: what still runs, what is returned, and results that come too late."""

from __future__ import annotations

import pytest
from tests.kit.lane_bench import LaneBench

from ehkafka.lanes.decision import HoldHead, RetryHead, SkipHead


def test_a_drain_finishes_what_lies_below_the_highest_started_offset() -> None:
    """With offset 3 running, 0 to 3 still run and 4 is returned; the commit has no hole below it."""
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 c2 d3 e4")
    running = bench.begin_key("d")
    bench.dispatcher.drain(assignment, below_started=True)
    assert not bench.dispatcher.drained(assignment)
    bench.finish(running)
    bench.work()
    assert bench.dispatcher.drained(assignment)
    assert sorted(bench.started) == ["a0", "b1", "c2", "d3"]
    assert assignment.watermark() == 4
    assert bench.dispatcher.end(assignment) == 1
    assert bench.is_empty()


def test_a_drain_with_nothing_started_returns_everything() -> None:
    """Queued work above the last outcome is left for the next owner, who repeats nothing."""
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 c2 d3")
    bench.finish(bench.begin()[0])
    bench.dispatcher.drain(assignment, below_started=True)
    assert bench.dispatcher.drained(assignment)
    bench.work()
    assert bench.started == ["a0"]
    assert assignment.watermark() == 1
    assert bench.dispatcher.end(assignment) == 3


def test_a_running_lane_is_cut_after_its_current_record() -> None:
    """The followers of a running head above every started offset do not start."""
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 a1 a2")
    [lane] = bench.begin()
    assert lane.may_run_head()
    bench.dispatcher.drain(assignment, below_started=True)
    bench.finish(lane)
    assert bench.started == ["a0"]
    assert assignment.watermark() == 1
    assert bench.dispatcher.end(assignment) == 2


def test_a_running_lane_goes_on_up_to_the_highest_started_offset() -> None:
    """Its followers below another key's started record run, those above do not."""
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 a1 b2 a3")
    lane, other = bench.begin(2)
    bench.dispatcher.drain(assignment, below_started=True)
    bench.finish(lane)
    bench.finish(other)
    bench.work()
    assert sorted(bench.started) == ["a0", "a1", "b2"]
    assert assignment.watermark() == 3


def test_a_stop_without_drain_ends_only_what_runs() -> None:
    """Running ends and commits; queued is neither started nor committed."""
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 c2 b3")
    running = bench.begin_key("b")
    bench.dispatcher.drain(assignment, below_started=False)
    bench.finish(running)
    bench.work()
    assert bench.started == []
    assert bench.dispatcher.end(assignment) == 4


def test_what_was_returned_is_never_passed() -> None:
    """A record finished above a returned one does not take the watermark over it."""
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 c2")
    first, second = bench.begin(2)
    assert second.may_run_head()
    assert bench.run_head(first) is False
    bench.settle(first)
    third = bench.begin_key("c")
    assert third.may_run_head()
    bench.dispatcher.drain(assignment, below_started=False)
    third.advance()
    bench.settle(third)
    assert assignment.watermark() == 1
    second.advance()
    bench.settle(second)
    assert assignment.watermark() == 3


@pytest.mark.parametrize("scope", ["partition", "handler"])
def test_a_running_record_above_an_returned_one_does_not_raise_the_watermark(scope: str) -> None:
    """The lowest of what is unfinished and what was returned counts."""
    bench = LaneBench(scope)  # type: ignore[arg-type]
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1")
    running = bench.begin_key("b")
    bench.dispatcher.drain(assignment, below_started=False)
    assert assignment.watermark() == 0
    running.advance()
    bench.settle(running)
    assert assignment.watermark() == 0


def test_a_ready_lane_that_was_cut_may_still_be_taken_and_handed_in() -> None:
    """A worker that pops it finds nothing to do, and the hand-in does no harm."""
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1")
    bench.begin_key("a")
    bench.dispatcher.drain(assignment, below_started=True)
    [cut] = bench.begin()
    assert not cut.may_run_head()
    bench.settle(cut)
    assert assignment.watermark() == 0


def test_a_worker_that_popped_a_lane_before_the_drain_starts_nothing_above_the_limit() -> None:
    """Popped, not yet marked running, cut in between: the head is gone when the worker looks."""
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1")
    bench.begin_key("a")
    popped = bench.dispatcher.ready.popleft()
    bench.dispatcher.drain(assignment, below_started=True)
    popped.running = True
    assert not popped.may_run_head()
    bench.settle(popped)
    assert assignment.watermark() == 0


def test_a_late_result_is_stale_and_counted() -> None:
    """What finishes after its epoch ended changes no count but the stale one."""
    bench = LaneBench()
    old = bench.assign()
    bench.receive(old, "a0 b1")
    [late] = bench.begin()
    assert late.may_run_head()
    assert bench.dispatcher.end(old) == 2
    assert bench.dispatcher.backlog_records == bench.dispatcher.backlog_bytes == 0
    new = bench.assign()
    bench.receive(new, "a0 b1")
    late.advance()
    bench.settle(late)
    assert bench.dispatcher.stale_records == 1
    assert list(bench.dispatcher.stale) == [(old, 1)]
    assert new.watermark() == 0
    assert (new.backlog_records, bench.dispatcher.backlog_records) == (2, 2)
    bench.work()
    assert new.watermark() == 2
    assert bench.is_empty()


@pytest.mark.parametrize("decision", [RetryHead(0.0, "r"), HoldHead("h"), SkipHead("s")])
def test_a_late_failure_is_dropped(decision: RetryHead | HoldHead | SkipHead) -> None:
    """A decision about a record of an ended epoch is not carried out."""
    bench = LaneBench()
    old = bench.assign()
    bench.receive(old, "a0")
    [late] = bench.begin()
    assert late.may_run_head()
    bench.dispatcher.end(old)
    late.decision = decision
    bench.settle(late)
    assert bench.dispatcher.holds.held == {}
    assert bench.dispatcher.skipped_records == 0
    assert bench.is_empty()


def test_a_holder_that_looks_after_the_end_starts_nothing() -> None:
    """Begun before the partition was lost, looked at after: nothing runs."""
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1")
    lane = bench.begin()[0]
    bench.dispatcher.end(assignment)
    assert not lane.may_run_head()
    bench.settle(lane)
    assert bench.started == []


def test_lanes_of_an_ended_epoch_that_stand_ready_do_no_harm() -> None:
    """They are taken, found empty and handed in, while the same key has a new lane."""
    bench = LaneBench()
    old = bench.assign()
    bench.receive(old, "a0 b1")
    bench.dispatcher.end(old)
    new = bench.assign()
    bench.receive(new, "a0")
    bench.work()
    assert bench.started == ["a0"]
    assert bench.is_empty()
    assert bench.dispatcher.stale_records == len(bench.dispatcher.stale) == 0


def test_a_parked_record_does_not_keep_a_drain_waiting() -> None:
    """A drain waits for what runs or could run, not for a retry's time."""
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1")
    bench.fail_head(bench.begin_key("a"), RetryHead(60.0, "later"))
    bench.dispatcher.drain(assignment, below_started=True)
    assert bench.dispatcher.drained(assignment)
    assert assignment.watermark() == 0
    bench.dispatcher.end(assignment)
    assert bench.dispatcher.holds.held == {}
    assert bench.dispatcher.holds.next_due_s() is None
    bench.work()
    assert bench.is_empty()


def test_a_drain_starts_nothing_above_a_held_head() -> None:
    """All above it is repeated anyway, so only what lies below it is finished."""
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 c2 d3")
    bench.fail_head(bench.begin_key("b"), HoldHead("poison"))
    running = bench.begin_key("d")
    assert running.may_run_head()
    bench.dispatcher.drain(assignment, below_started=True)
    running.advance()
    bench.settle(running)
    bench.work()
    assert bench.started == ["b1", "a0"]
    assert assignment.watermark() == 1


def test_a_retry_that_comes_due_while_draining_runs() -> None:
    """What lies within the drain's limit may still finish."""
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 a2 c3")
    bench.fail_head(bench.begin_key("a"), RetryHead(1.0, "later"))
    running = bench.begin_key("c")
    assert running.may_run_head()
    bench.dispatcher.drain(assignment, below_started=True)
    bench.dispatcher.holds.unpark_due(1.0)
    bench.work()
    assert bench.started == ["a0", "a0"]
    assert assignment.watermark() == 1


def test_a_failure_while_draining_holds_the_watermark() -> None:
    """A record that fails during the drain is held, and the drain is over."""
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1")
    first, second = bench.begin(2)
    assert first.may_run_head()
    assert second.may_run_head()
    bench.dispatcher.drain(assignment, below_started=True)
    second.advance()
    bench.settle(second)
    first.decision = HoldHead("poison")
    bench.settle(first)
    assert bench.dispatcher.drained(assignment)
    assert assignment.watermark() == 0
    assert bench.dispatcher.end(assignment) == 1


def test_ending_one_partition_leaves_the_others_alone() -> None:
    """Retained partitions go on without pause or repeat."""
    bench = LaneBench()
    leaving, staying = bench.assign(0), bench.assign(1)
    bench.receive(leaving, "a0 b1")
    bench.receive(staying, "a0 b1")
    bench.dispatcher.drain(leaving, below_started=True)
    bench.dispatcher.end(leaving)
    bench.work()
    assert staying.watermark() == 2
    assert bench.dispatcher.backlog_records == 0
    assert bench.dispatcher.finished_records == 2


def test_a_partition_cannot_be_assigned_twice() -> None:
    """Two epochs of one partition at once would be an engine defect, and are refused."""
    bench = LaneBench()
    bench.assign()
    with pytest.raises(AssertionError, match="assigned twice"):
        bench.assign()


def test_records_wait_until_their_partition_is_opened() -> None:
    """Nothing starts before the user's code is ready; then all of it does, in order."""
    bench = LaneBench()
    assignment = bench.assign(opened=False)
    bench.receive(assignment, "a0 b1 a2")
    assert bench.begin() == []
    assert not bench.dispatcher.drained(assignment)
    bench.dispatcher.open(assignment)
    bench.receive(assignment, "c3")
    bench.work()
    assert bench.started == ["a0", "a2", "b1", "c3"]
    assert bench.is_empty()


def test_a_partition_revoked_before_it_was_opened_starts_nothing() -> None:
    """An open that comes late finds nothing to start."""
    bench = LaneBench()
    assignment = bench.assign(opened=False)
    bench.receive(assignment, "a0 b1")
    bench.dispatcher.drain(assignment, below_started=True)
    assert bench.dispatcher.drained(assignment)
    bench.dispatcher.open(assignment)
    bench.work()
    assert bench.dispatcher.end(assignment) == 2
    bench.dispatcher.open(assignment)
    bench.work()
    assert bench.started == []
    assert bench.is_empty()


def test_a_record_of_an_unopened_partition_waits_though_the_one_before_it_was_revoked() -> None:
    """A ready lane whose head is cut does not start the next partition's record too early."""
    bench = LaneBench("handler")
    one, unopened = bench.assign(0), bench.assign(1, opened=False)
    bench.receive(one, "a0")
    bench.receive(unopened, "a7")
    bench.dispatcher.end(one)
    bench.work()
    assert bench.started == []
    bench.dispatcher.open(unopened)
    bench.work()
    assert bench.started == ["a7"]


def test_whether_anything_can_run_is_known_over_all_partitions() -> None:
    """A stop waits for every partition's work, and for nothing that only waits."""
    bench = LaneBench()
    bench.receive(bench.assign(0), "a0")
    bench.receive(bench.assign(1), "b0")
    bench.fail_head(bench.begin_key("a"), HoldHead("poison"))
    assert bench.dispatcher.has_runnable()
    bench.work()
    assert not bench.dispatcher.has_runnable()
