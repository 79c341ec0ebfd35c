"""What becomes of a batch's lanes when it returns, fails or is revoked: the pure plan, without threads."""

from __future__ import annotations

import pytest

from ehkafka.lanes.decision import HoldHead, RetryHead
from ehkafka.records import Outcome
from tests.workers.batches.plan_bench import PlanBench, offsets

# --- what becomes of it ----------------------------------------------------------------------------------


def test_the_watermark_waits_for_the_whole_batch() -> None:
    """Nothing of a batch is done before its handler has returned."""
    bench = PlanBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 a1 b2 a3")
    shares = bench.take()
    assert assignment.watermark() == 0
    bench.end(shares)
    assert assignment.watermark() == 4
    assert bench.is_empty()


def test_a_failed_record_and_the_later_ones_of_its_key_stay() -> None:
    """They come again in order; only the failed one has spent an attempt."""
    bench = PlanBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 a1 a2 b3")
    shares = bench.take()
    shares[0].decision = RetryHead(5.0, "later")
    bench.end(shares, lambda m: None if m.offset() == 1 else Outcome.FINISHED)
    assert assignment.watermark() == 1
    assert (assignment.finished_records, assignment.parked_records) == (2, 2)
    bench.receive(assignment, "a4")
    assert bench.take() == []
    bench.dispatcher.holds.unpark_due(5.0)
    (again,) = bench.take()
    assert (offsets([again]), again.attempt) == ([1, 2, 4], 2)
    bench.end([again])
    assert assignment.watermark() == 5
    assert bench.is_empty()


def test_a_skipped_record_in_the_middle_is_passed_in_order_and_counted() -> None:
    """The watermark passes it; it counts as skipped and not as finished."""
    bench = PlanBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 a1 a2")
    bench.end(bench.take(), lambda m: Outcome.SKIPPED if m.offset() == 1 else Outcome.FINISHED)
    assert (assignment.finished_records, assignment.skipped_records) == (2, 1)
    assert (bench.dispatcher.finished_records, bench.dispatcher.skipped_records) == (2, 1)
    assert assignment.watermark() == 3
    assert bench.is_empty()


def test_a_batch_that_raised_comes_again_in_halves_until_the_culprit_is_alone() -> None:
    """No attempt is spent on the way; those that succeed meanwhile come whole again."""
    bench = PlanBench(records_max=8)
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 c2 d3 e4 f5 g6 h7")
    sizes, culprit = [], None
    while shares := bench.take():
        found = offsets(shares)
        sizes.append(len(found))
        assert all(share.attempt == 1 for share in shares)
        if 5 not in found:
            bench.end(shares)
        elif len(found) > 1:
            bench.plan.narrow(shares, len(found) // 2)
            bench.end(shares, lambda _: None)
            assert bench.wait_s() == 0.0
        else:
            culprit = found
            shares[0].decision = HoldHead("poison")
            bench.end(shares, lambda _: None)
    assert culprit == [5]
    assert sizes == [8, 4, 4, 2, 2, 1, 1]
    assert assignment.watermark() == 5
    assert assignment.finished_records == 7


def test_fresh_records_do_not_join_suspects() -> None:
    """A lane that came after the raise is in a batch of its own, as large as ever."""
    bench = PlanBench(records_max=4, records_min=1)
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 e2")
    shares = bench.take()
    bench.plan.narrow(shares, 2)
    bench.end(shares, lambda _: None)
    bench.receive(assignment, "c3 d4")
    assert bench.run_all() == [[0, 1], [2], [3, 4]]
    bench.receive(assignment, "a5 b6 e7")
    assert bench.run_all() == [[5, 6, 7]]


def test_narrowed_lanes_that_are_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory follows what is there, not what ever raised."""
    monkeypatch.setattr("ehkafka.workers.batches.plan._NARROWED_MIN", 4)
    bench = PlanBench(records_max=3)
    bench.plan._narrowed_max = 4
    for _ in range(50):
        assignment = bench.assign()
        bench.receive(assignment, "a0 b1 c2")
        shares = bench.take()
        bench.plan.narrow(shares, 1)
        bench.end(shares, lambda _: None)
        bench.dispatcher.end(assignment)
    assert len(bench.plan.due.narrowed) <= 8


# --- revoke ----------------------------------------------------------------------------------------------


def test_a_drain_waits_for_the_batch_that_runs_and_starts_what_lies_below_it() -> None:
    """Its followers count as started: they stay, and so does what is needed for no hole below them."""
    bench = PlanBench(records_max=4)
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 c2 a3 d4")
    others = [bench.begin_key(key) for key in "bcd"]
    running = bench.take()
    bench.settle(*others)
    assert offsets(running) == [0, 3]
    bench.dispatcher.drain(assignment, below_started=True)
    assert assignment.drain_limit == 3
    assert assignment.returned_records == 1  # d4
    below = bench.take()
    assert offsets(below) == [1, 2]
    bench.end(below)
    assert not bench.dispatcher.drained(assignment)
    bench.end(running)
    assert bench.dispatcher.drained(assignment)
    assert assignment.watermark() == 4


def test_records_above_the_limit_of_a_drain_do_not_start() -> None:
    """A stop without drain lets what runs end; what came back to its lane does not start again."""
    bench = PlanBench(records_min=1)
    assignment = bench.assign()
    bench.receive(assignment, "a0 a1 b2")
    running = bench.take()
    bench.receive(assignment, "a3 c4")
    bench.dispatcher.drain(assignment, below_started=False)
    assert assignment.returned_records == 2
    assert bench.take() == []
    bench.end(running, lambda m: None if m.offset() == 1 else Outcome.FINISHED)
    assert bench.take() == []
    assert bench.dispatcher.drained(assignment)
    assert (assignment.watermark(), assignment.returned_records) == (1, 3)


@pytest.mark.parametrize("scope", ["partition", "handler"])
def test_what_a_batch_did_for_an_ended_epoch_is_stale(scope: str) -> None:
    """Dropped and counted, the lanes of other partitions go on."""
    bench = PlanBench(scope)
    lost, kept = bench.assign(0), bench.assign(1)
    bench.receive(lost, "a0 a1 b2")
    bench.receive(kept, "c0 c1")
    shares = bench.take()
    bench.dispatcher.end(lost)
    started = sum(share.lane.assignment is lost for share in shares for _ in share.messages)
    bench.end(shares, lambda m: Outcome.SKIPPED if m.offset() == 2 else Outcome.FINISHED)
    bench.run_all()
    assert sum(count for assignment, count in bench.dispatcher.stale if assignment is lost) == started
    assert bench.dispatcher.stale_records == started
    assert (lost.finished_records, lost.skipped_records) == (0, 0)
    assert kept.watermark() == 2
    assert bench.is_empty()


def test_what_a_drain_does_not_want_does_not_start_with_a_head_below_its_limit() -> None:
    """Past a held head all is repeated anyway: a batch that raised comes again without what lies there."""
    bench = PlanBench(records_min=1)
    assignment = bench.assign()
    bench.receive(assignment, "a0 b3 a5")
    bench.fail_head(bench.begin_key("b"), HoldHead("poison"))
    shares = bench.take()
    assert offsets(shares) == [0, 5]
    bench.dispatcher.drain(assignment, below_started=True)
    assert assignment.drain_limit == 3
    bench.plan.narrow(shares, 2)
    bench.end(shares, lambda _: None)
    assert offsets(bench.take()) == [0]


def test_what_is_behind_a_failed_record_is_not_started_any_more() -> None:
    """While the failures decides, a drain takes the later ones out; the failed one is waited for."""
    bench = PlanBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 a1 a2")
    shares = bench.take()
    shares[0].ended_records = 1
    bench.plan.pass_over(shares)
    bench.dispatcher.drain(assignment, below_started=True)
    assert (assignment.drain_limit, assignment.returned_records) == (1, 1)
    assert not bench.dispatcher.drained(assignment)
    shares[0].decision = HoldHead("poison")
    bench.plan.hand_in(shares, bench.now_s)
    assert bench.dispatcher.drained(assignment)


def test_a_batch_that_is_only_collected_is_not_started() -> None:
    """A revoke finds its records queued: none is waited for, all are returned."""
    bench = PlanBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 a2")
    assert bench.wait_s() == 1.0
    bench.dispatcher.drain(assignment, below_started=True)
    assert bench.dispatcher.drained(assignment)
    assert bench.dispatcher.end(assignment) == 3
