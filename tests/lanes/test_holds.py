"""Lanes that wait: retries in time order, records kept by a policy, and commands on keys."""

from __future__ import annotations

from tests.kit.lane_bench import LaneBench

from ehkafka.lanes.decision import HoldHead, RetryHead


def test_a_parked_lane_is_parked_whole() -> None:
    """Its followers wait, other keys do not, and no worker is held."""
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 a1 b2")
    bench.fail_head(bench.begin_key("a"), RetryHead(5.0, "later"))
    bench.receive(assignment, "a3")
    bench.work()
    assert bench.started == ["a0", "b2"]
    assert (bench.dispatcher.parked_records, assignment.parked_records) == (3, 3)
    assert bench.dispatcher.backlog_records == 0
    assert bench.dispatcher.begin() is None


def test_nothing_is_released_before_its_time() -> None:
    """A retry comes when it is due and not a moment earlier."""
    bench = LaneBench()
    bench.receive(bench.assign(), "a0")
    bench.now_s = 10.0
    bench.fail_head(bench.begin()[0], RetryHead(5.0, "later"))
    holds = bench.dispatcher.holds
    assert holds.next_due_s() == 15.0
    assert holds.unpark_due(14.999) == 0
    assert bench.begin() == []
    assert holds.unpark_due(15.0) == 1
    assert holds.next_due_s() is None
    assert len(bench.begin()) == 1


def test_parked_lanes_come_back_in_the_order_of_their_times() -> None:
    """The earliest first, equal times in the order of parking."""
    bench = LaneBench()
    bench.receive(bench.assign(), "a0 b1 c2 d3")
    for lane, after_s in zip(bench.begin(4), (3.0, 1.0, 2.0, 1.0), strict=True):
        bench.fail_head(lane, RetryHead(after_s, "later"))
    due = []
    while (due_s := bench.dispatcher.holds.next_due_s()) is not None:
        bench.dispatcher.holds.unpark_due(due_s)
        due += [(due_s, lane.key) for lane in bench.begin(9)]
    assert due == [(1.0, b"b"), (1.0, b"d"), (2.0, b"c"), (3.0, b"a")]


def test_ten_thousand_retries_keep_ten_entries() -> None:
    """Bookkeeping follows the lanes that wait, not the retries they had."""
    bench = LaneBench()
    bench.receive(bench.assign(), " ".join(f"{chr(97 + n)}{n}" for n in range(10)))
    holds = bench.dispatcher.holds
    for _ in range(1_000):
        for lane in bench.begin(10):
            bench.fail_head(lane, RetryHead(1.0, "again"))
        assert len(holds.held) == 10
        assert len(holds._due) <= 10
        bench.now_s += 1.0
        assert holds.unpark_due(bench.now_s) == 10
    assert len(bench.started) == 10_000


def test_a_record_held_by_its_policy_waits_for_a_command() -> None:
    """No time releases it, `retry_key` does."""
    bench = LaneBench()
    bench.receive(bench.assign(), "a0 a1")
    bench.fail_head(bench.begin()[0], HoldHead("poison"))
    holds = bench.dispatcher.holds
    assert holds.next_due_s() is None
    assert holds.unpark_due(1e9) == 0
    assert holds.retry_key(b"a") == 1
    bench.work()
    assert bench.started == ["a0", "a0", "a1"]


def test_retry_key_does_not_wait_for_the_time() -> None:
    """A command releases a parked lane at once, and its time then releases nothing."""
    bench = LaneBench()
    bench.receive(bench.assign(), "a0 a1")
    bench.fail_head(bench.begin()[0], RetryHead(60.0, "later"))
    holds = bench.dispatcher.holds
    assert holds.retry_key(b"a") == 1
    [lane] = bench.begin()
    assert holds.unpark_due(1e9) == 0
    bench.finish(lane)
    assert bench.is_empty()


def test_a_time_that_passed_by_does_not_end_a_later_hold() -> None:
    """After a command, the lane fails again: only its new time counts."""
    bench = LaneBench()
    bench.receive(bench.assign(), "a0")
    bench.fail_head(bench.begin()[0], RetryHead(1.0, "later"))
    bench.dispatcher.holds.retry_key(b"a")
    bench.fail_head(bench.begin()[0], RetryHead(100.0, "much later"))
    assert bench.dispatcher.holds.unpark_due(50.0) == 0
    assert bench.dispatcher.holds.next_due_s() == 100.0


def test_skip_key_gives_the_held_head_an_outcome() -> None:
    """The poison record is passed and counted, its followers run."""
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 a1")
    bench.fail_head(bench.begin()[0], HoldHead("poison"))
    assert bench.dispatcher.holds.skip_key(b"a") == 1
    assert assignment.skipped_records == 1
    assert bench.dispatcher.backlog_records == 1
    bench.work()
    assert bench.started == ["a0", "a1"]
    assert assignment.watermark() == 2
    assert bench.is_empty()


def test_commands_leave_keys_that_do_not_wait_alone() -> None:
    """A queued or running key has no held head to skip or retry."""
    bench = LaneBench()
    bench.receive(bench.assign(), "a0 b1")
    bench.begin()
    holds = bench.dispatcher.holds
    assert (holds.skip_key(b"a"), holds.skip_key(b"b"), holds.retry_key(b"b")) == (0, 0, 0)
    assert holds.skip_key(b"never seen") == 0


def test_a_paused_key_starts_nothing_more() -> None:
    """Queued and new records of it wait, other keys run."""
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1")
    bench.dispatcher.holds.pause_key(b"a")
    bench.receive(assignment, "a2 c3")
    bench.work()
    assert bench.started == ["b1", "c3"]
    assert assignment.watermark() == 0


def test_a_key_paused_before_its_first_record_waits_too() -> None:
    """The pause holds for lanes that are made later, in every partition."""
    bench = LaneBench()
    bench.dispatcher.holds.pause_key(b"a")
    for partition in range(2):
        bench.receive(bench.assign(partition), "a0")
    assert bench.begin() == []
    bench.dispatcher.holds.resume_key(b"a")
    assert len(bench.begin(9)) == 2


def test_a_key_paused_while_it_runs_stops_at_its_hand_in() -> None:
    """What runs ends first."""
    bench = LaneBench()
    bench.receive(bench.assign(), "a0 a1")
    [lane] = bench.begin()
    bench.dispatcher.holds.pause_key(b"a")
    bench.finish(lane, records=1)
    bench.work()
    assert bench.started == ["a0"]
    bench.dispatcher.holds.resume_key(b"a")
    bench.work()
    assert bench.started == ["a0", "a1"]
    assert bench.is_empty()


def test_a_pause_survives_a_worker_that_had_just_taken_the_lane() -> None:
    """Popped but not marked running: the worker's turn runs, then the key waits."""
    bench = LaneBench()
    bench.receive(bench.assign(), "a0 a1")
    lane = bench.dispatcher.ready.popleft()
    bench.dispatcher.holds.pause_key(b"a")
    lane.running = True
    bench.finish(lane, records=1)
    assert bench.begin() == []
    assert lane in bench.dispatcher.holds.held


def test_resume_does_not_end_a_retrys_wait() -> None:
    """Pausing and resuming a parked key changes nothing of its time."""
    bench = LaneBench()
    bench.receive(bench.assign(), "a0")
    bench.fail_head(bench.begin()[0], RetryHead(5.0, "later"))
    holds = bench.dispatcher.holds
    holds.pause_key(b"a")
    holds.resume_key(b"a")
    assert bench.begin() == []
    assert holds.next_due_s() == 5.0


def test_a_retry_that_comes_due_while_its_key_is_paused_waits_for_the_resume() -> None:
    """A pause wins over a time."""
    bench = LaneBench()
    bench.receive(bench.assign(), "a0")
    bench.fail_head(bench.begin()[0], RetryHead(1.0, "later"))
    holds = bench.dispatcher.holds
    holds.pause_key(b"a")
    holds.unpark_due(1.0)
    assert bench.begin() == []
    holds.resume_key(b"a")
    assert len(bench.begin()) == 1


def test_a_key_paused_before_its_partition_is_opened_waits_for_both() -> None:
    """Neither the opening nor the resume alone starts it."""
    bench = LaneBench()
    assignment = bench.assign(opened=False)
    bench.receive(assignment, "a0 b1")
    holds = bench.dispatcher.holds
    holds.pause_key(b"a")
    bench.dispatcher.open(assignment)
    bench.work()
    assert bench.started == ["b1"]
    holds.resume_key(b"a")
    bench.work()
    assert bench.started == ["b1", "a0"]


def test_a_key_resumed_before_its_partition_is_opened_waits_for_the_opening() -> None:
    """A resume starts nothing in a partition that is not open."""
    bench = LaneBench()
    assignment = bench.assign(opened=False)
    bench.dispatcher.holds.pause_key(b"a")
    bench.receive(assignment, "a0")
    bench.dispatcher.holds.resume_key(b"a")
    assert bench.begin() == []
    bench.dispatcher.open(assignment)
    bench.work()
    assert bench.started == ["a0"]


def test_holds_end_with_their_partition() -> None:
    """Parked, held and paused lanes of a lost partition are forgotten; the pause of the key is not."""
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 c2")
    bench.fail_head(bench.begin_key("a"), RetryHead(1.0, "later"))
    bench.fail_head(bench.begin_key("b"), HoldHead("poison"))
    holds = bench.dispatcher.holds
    holds.pause_key(b"c")
    assert bench.dispatcher.end(assignment) == 3
    assert holds.held == {}
    assert holds.unpark_due(1e9) == 0
    bench.receive(bench.assign(), "a0 c2")
    bench.work()
    assert bench.started == ["a0", "b1", "a0"]


def test_waits_that_commands_end_do_not_pile_up() -> None:
    """A lane that is retried by hand again and again, its next retry far away, is one entry."""
    bench = LaneBench()
    bench.receive(bench.assign(), "a0")
    holds = bench.dispatcher.holds
    for _ in range(1_000):
        bench.fail_head(bench.begin()[0], RetryHead(3_600.0, "later"))
        assert holds.retry_key(b"a") == 1
        assert len(holds._due) <= 110
    bench.fail_head(bench.begin()[0], RetryHead(5.0, "soon"))
    assert holds.next_due_s() == 5.0
