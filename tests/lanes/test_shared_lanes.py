"""One lane for a key over all partitions of the handler, and what becomes of it when one is revoked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ehkafka.lanes.cuts import Cuts
from tests.kit.lane_bench import LaneBench

from ehkafka.lanes.decision import HoldHead, RetryHead, SkipHead

if TYPE_CHECKING:
    from ehkafka.lanes.assignment import Assignment


def _shared() -> LaneBench:
    return LaneBench("handler")


def test_lanes_of_two_partitions_are_independent_by_default() -> None:
    """The same key in two partitions runs side by side."""
    bench = LaneBench()
    bench.receive(bench.assign(0), "a0")
    bench.receive(bench.assign(1), "a0")
    assert len(bench.begin(9)) == 2


def test_one_lane_serves_a_key_of_all_partitions_and_topics() -> None:
    """Records of one key run one after another in the order they were received."""
    bench = _shared()
    one, two, three = bench.assign(0), bench.assign(1), bench.assign(0, "u")
    bench.receive(one, "a0 b1")
    bench.receive(two, "a0")
    bench.receive(one, "a2")
    bench.receive(three, "a0")
    assert len(bench.begin(9)) == 2
    lanes = list(one.lanes.values())
    for lane in lanes:
        bench.finish(lane)
    bench.work()
    assert bench.started == ["a0", "b1", "a0", "a2", "a0"]
    assert [assignment.watermark() for assignment in (one, two, three)] == [3, 1, 1]
    assert [assignment.finished_records for assignment in (one, two, three)] == [3, 1, 1]
    assert bench.is_empty()


def test_each_partitions_watermark_knows_its_own_records() -> None:
    """A record waiting behind another partition's still holds its own partition back."""
    bench = _shared()
    one, two = bench.assign(0), bench.assign(1)
    bench.receive(one, "a0")
    bench.receive(two, "a0 b1")
    blocked = bench.begin_key("a")
    bench.work()
    assert (one.watermark(), two.watermark()) == (0, 0)
    bench.finish(blocked)
    assert (one.watermark(), two.watermark()) == (1, 0)
    bench.work()
    assert two.watermark() == 2


def test_a_lane_goes_on_for_the_others_when_the_heads_partition_is_revoked() -> None:
    """The queued head is taken away, the next partition's record runs."""
    bench = _shared()
    one, two = bench.assign(0), bench.assign(1)
    bench.receive(one, "a0")
    bench.receive(two, "a0")
    bench.receive(one, "a1")
    bench.dispatcher.drain(one, below_started=True)
    assert bench.dispatcher.drained(one)
    assert bench.dispatcher.end(one) == 2
    bench.work()
    assert bench.started == ["a0"]
    assert two.watermark() == 1
    assert bench.is_empty()


def test_a_running_record_of_a_revoked_partition_is_stale_and_the_lane_goes_on() -> None:
    """The late result counts for nothing, the other partition's record waits for it all the same."""
    bench = _shared()
    one, two = bench.assign(0), bench.assign(1)
    bench.receive(one, "a0")
    bench.receive(two, "a0 a1")
    [late] = bench.begin()
    assert late.may_run_head()
    assert bench.dispatcher.end(one) == 1
    assert bench.begin() == []
    late.advance()
    bench.settle(late)
    assert bench.dispatcher.stale_records == 1
    assert two.watermark() == 0
    bench.work()
    assert two.watermark() == 2
    assert bench.is_empty()


def test_a_late_failure_of_a_revoked_partition_frees_the_lane_for_the_others() -> None:
    """Its decision is dropped and its failed calls are not the next record's."""
    bench = _shared()
    one, two = bench.assign(0), bench.assign(1)
    bench.receive(one, "a0")
    bench.receive(two, "a0")
    [late] = bench.begin()
    late.attempts = 3
    bench.dispatcher.end(one)
    late.decision = SkipHead("too late")
    bench.settle(late)
    assert bench.dispatcher.skipped_records == 0
    [lane] = bench.begin()
    assert lane.attempts == 0
    assert lane.assignment is two


def test_a_parked_head_of_a_revoked_partition_lets_the_others_go_on() -> None:
    """The wait ends with its record, and so do its failed calls."""
    bench = _shared()
    one, two = bench.assign(0), bench.assign(1)
    bench.receive(one, "a0")
    bench.receive(two, "a0")
    bench.fail_head(bench.begin()[0], RetryHead(60.0, "later"))
    bench.dispatcher.end(one)
    [lane] = bench.begin()
    assert lane.assignment is two
    assert lane.attempts == 0
    bench.finish(lane)
    assert bench.is_empty()


def test_a_held_head_keeps_the_other_partitions_records_of_its_key() -> None:
    """The key waits as a whole; neither commit passes what waits."""
    bench = _shared()
    one, two = bench.assign(0), bench.assign(1)
    bench.receive(one, "a0")
    bench.receive(two, "a0 b1")
    bench.fail_head(bench.begin_key("a"), HoldHead("poison"))
    bench.work()
    assert (one.watermark(), two.watermark()) == (0, 0)
    assert bench.dispatcher.parked_records == 2
    assert bench.dispatcher.drained(two)


def test_skipping_a_shared_head_counts_for_its_own_partition() -> None:
    """The outcome is the head's partition's."""
    bench = _shared()
    one, two = bench.assign(0), bench.assign(1)
    bench.receive(one, "a0")
    bench.receive(two, "a0")
    bench.fail_head(bench.begin()[0], SkipHead("no"))
    assert (one.skipped_records, two.skipped_records) == (1, 0)
    assert (one.backlog_records, two.backlog_records) == (0, 1)
    bench.work()
    assert bench.is_empty()


def test_a_cut_lane_that_still_stands_ready_does_not_free_the_keys_new_lane() -> None:
    """One partition's revoke empties a lane; the key comes again in another partition."""
    bench = _shared()
    one, two = bench.assign(0), bench.assign(1)
    bench.receive(one, "a0")
    bench.dispatcher.drain(one, below_started=True)
    bench.receive(two, "a0")
    [empty] = bench.begin()
    assert not empty.may_run_head()
    bench.settle(empty)
    assert two.watermark() == 0
    bench.work()
    assert bench.started == ["a0"]
    assert two.watermark() == 1


def test_a_record_behind_an_unopened_partitions_one_runs_when_that_partition_is_revoked() -> None:
    """A lane that waits for an opening is not lost with it."""
    bench = _shared()
    unopened, two = bench.assign(0, opened=False), bench.assign(1)
    bench.receive(unopened, "a0")
    bench.receive(two, "a0")
    assert bench.begin() == []
    bench.dispatcher.end(unopened)
    bench.work()
    assert bench.started == ["a0"]
    assert two.watermark() == 1


def test_a_record_behind_an_unopened_partitions_one_runs_when_that_partition_is_opened() -> None:
    """The opening readies the lane for both."""
    bench = _shared()
    unopened, two = bench.assign(0, opened=False), bench.assign(1)
    bench.receive(unopened, "a0")
    bench.receive(two, "a0")
    bench.dispatcher.open(unopened)
    bench.work()
    assert (unopened.watermark(), two.watermark()) == (1, 1)


def test_a_paused_key_is_paused_over_all_partitions() -> None:
    """One lane, one pause; the other keys go on."""
    bench = _shared()
    one, two = bench.assign(0), bench.assign(1)
    bench.receive(one, "a0")
    bench.dispatcher.holds.pause_key(b"a")
    bench.receive(two, "a0 b1")
    bench.work()
    assert bench.started == ["b1"]
    bench.dispatcher.end(one)
    bench.work()
    assert bench.started == ["b1"]
    bench.dispatcher.holds.resume_key(b"a")
    bench.work()
    assert bench.started == ["b1", "a0"]
    assert bench.is_empty()


def test_a_worker_that_took_a_shared_lane_while_it_was_cut_runs_what_is_left() -> None:
    """Popped, not marked running; the head is exchanged for the other partition's."""
    bench = _shared()
    one, two = bench.assign(0), bench.assign(1)
    bench.receive(one, "a0")
    bench.receive(two, "a7")
    popped = bench.dispatcher.ready.popleft()
    bench.dispatcher.end(one)
    popped.running = True
    bench.finish(popped)
    assert bench.started == ["a7"]
    assert two.watermark() == 8
    assert bench.is_empty()


def test_a_drain_waits_for_a_finished_record_to_be_handed_in() -> None:
    """While a holder has this partition's record, the end would call its result stale."""
    bench = _shared()
    one = bench.assign(0)
    bench.receive(one, "a0")
    [lane] = bench.begin()
    bench.dispatcher.drain(one, below_started=True)
    bench.run_head(lane)
    assert not bench.dispatcher.drained(one)
    bench.settle(lane)
    assert bench.dispatcher.drained(one)
    assert bench.dispatcher.end(one) == 0


@pytest.mark.parametrize("below_started", [True, False])
def test_a_failed_record_is_not_overtaken_while_its_partition_drains(*, below_started: bool) -> None:
    """Its key waits for the end of the epoch; then the other partition's record runs."""
    bench = _shared()
    one, two = bench.assign(0), bench.assign(1)
    bench.receive(one, "b0 a1")
    bench.receive(two, "a0")
    for key in "ba":
        bench.fail_head(bench.begin_key(key), RetryHead(60.0, "later"))
    bench.dispatcher.drain(one, below_started=below_started)
    bench.work()
    assert bench.started == ["b0", "a1"]
    bench.dispatcher.end(one)
    bench.work()
    assert bench.started == ["b0", "a1", "a0"]
    assert two.watermark() == 1
    assert bench.is_empty()


@pytest.mark.parametrize("command", ["due", "retry", "resume"])
def test_a_record_that_fails_during_a_drain_keeps_its_key_until_the_epoch_ends(command: str) -> None:
    """Neither its retry's time nor a command lets a later record pass it; nor does it run again."""
    bench = _shared()
    one, two = bench.assign(0), bench.assign(1)
    bench.receive(one, "a0")
    bench.receive(two, "a0 b1")
    running = bench.begin_key("a")
    assert running.may_run_head()
    bench.dispatcher.drain(one, below_started=False)
    if command == "resume":
        bench.dispatcher.holds.pause_key(b"a")
    running.decision = RetryHead(1.0, "later")
    bench.settle(running)
    if command == "due":
        bench.dispatcher.holds.unpark_due(1.0)
    elif command == "retry":
        bench.dispatcher.holds.retry_key(b"a")
    else:
        bench.dispatcher.holds.unpark_due(1.0)
        bench.dispatcher.holds.resume_key(b"a")
    bench.work()
    assert bench.started == ["b1"]
    assert bench.dispatcher.drained(one)
    bench.dispatcher.end(one)
    bench.work()
    assert bench.started == ["b1", "a0"]
    assert bench.is_empty()


def test_a_failed_record_whose_retry_is_due_is_not_overtaken_when_its_partition_is_cut() -> None:
    """It waits for a worker when the drain begins; it does not run, nor does what lies behind it."""
    bench = _shared()
    one, two = bench.assign(0), bench.assign(1)
    bench.receive(one, "a0")
    bench.receive(two, "a0 b1")
    bench.fail_head(bench.begin_key("a"), RetryHead(1.0, "later"))
    bench.dispatcher.holds.unpark_due(1.0)
    bench.started.clear()
    bench.dispatcher.drain(one, below_started=False)
    bench.work()
    assert bench.started == ["b1"]
    assert bench.dispatcher.drained(one)
    bench.dispatcher.end(one)
    bench.work()
    assert bench.started == ["b1", "a0"]
    assert bench.is_empty()


def test_no_key_goes_on_between_the_ends_of_two_partitions_that_leave_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The record behind a failed one leaves as well, though its own partition ends a moment later."""
    bench = _shared()
    one, two = bench.assign(0), bench.assign(1)
    bench.receive(one, "a0")
    bench.receive(two, "a0 b1")
    bench.fail_head(bench.begin_key("a"), RetryHead(60.0, "later"))
    running = bench.begin_key("b")
    assert running.may_run_head()
    bench.dispatcher.drain_all([one, two], lambda _work: True)
    bench.finish(running)
    end = Cuts.end

    def end_with_workers_beside(cuts: Cuts, assignment: Assignment) -> int:
        returned = end(cuts, assignment)
        bench.work()
        return returned

    monkeypatch.setattr(Cuts, "end", end_with_workers_beside)
    bench.dispatcher.end_all([one, two])
    assert bench.started == ["a0", "b1"]
    assert bench.is_empty()
