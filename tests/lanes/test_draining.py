"""Partitions that go: what still runs, what is left for the next owner, and what counts."""

from __future__ import annotations

import pytest

from ehkafka.lanes.decision import AwaitHead, HoldHead, RetryHead
from ehkafka.lanes.ending import Work
from ehkafka.lanes.routing import Router
from ehkafka.records import Outcome
from tests.kit.inbox_bench import InboxBench, at_once, left_of


def test_a_drain_finishes_what_lies_below_the_highest_started_offset() -> None:
    """With offset 3 running, 0 to 3 still run and 4 is left; the commit has no hole below it."""
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1 a2 d3 a4")
    running = bench.call("d")
    assert bench.drain(epoch)
    assert epoch.tally.returned_records == 1
    assert not bench.inboxes.is_drained([epoch])
    bench.finish(running)
    bench.work()
    assert bench.inboxes.is_drained([epoch])
    assert sorted(bench.started) == ["a0", "a2", "b1", "d3"]
    assert epoch.watermark() == 4


def test_a_drain_with_nothing_started_leaves_everything() -> None:
    """What waits is the next owner's, who repeats nothing."""
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1")
    bench.drain(epoch)
    assert bench.inboxes.is_drained([epoch])
    assert (epoch.tally.returned_records, epoch.watermark()) == (2, 0)


@pytest.mark.parametrize("fits", [False, None])
def test_a_drain_without_time_ends_only_what_runs(fits: bool | None) -> None:
    """What is finished above is known as ranges; what was left is passed by no commit."""
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1 c2")
    running = bench.call("c")
    bench.inboxes.drain([epoch], None if fits is None else lambda _work: fits)
    bench.finish(running)
    assert bench.begin() is None
    assert left_of(epoch) == ["a0", "b1"]
    extent = epoch.extent()
    assert extent is not None
    assert (epoch.watermark(), extent.finished()) == (0, ((2, 3),))


def test_what_is_asked_for_is_the_work_below_the_highest_started_offsets() -> None:
    """What runs and what waits below it, of all partitions; a key's records one after another."""
    bench = InboxBench("handler")
    one, two = bench.assign(0), bench.assign(1)
    bench.receive(one, "a0 a1 b2 c3")
    bench.receive(two, "a0 d1")
    bench.call("b")
    bench.call("d")
    asked: list[Work] = []

    def fits(work: Work) -> bool:
        asked.append(work)
        return True

    bench.inboxes.drain([one, two], fits)
    assert asked == [Work(5, 3)]


def test_a_drain_that_turns_out_too_long_is_cut_short_later() -> None:
    """Asked again, with what is left; the running record still ends."""
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 a1 b2")
    running, _ = bench.call("a"), bench.call("b")
    assert bench.inboxes.drain([epoch], lambda _work: True)
    assert not bench.inboxes.drain([epoch], lambda _work: False)
    bench.finish(running)
    assert bench.begin() is None
    assert epoch.watermark() == 1


def test_a_record_that_fails_during_a_drain_holds_the_position() -> None:
    """What lies above it is left at the next look: the hole is there anyway."""
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1 b2 c3")
    failing, running = bench.call("a"), bench.call("c")
    bench.drain(epoch)
    bench.fail(failing, RetryHead(60.0, "later"))
    bench.drain(epoch)
    bench.finish(running)
    assert bench.begin() is None
    assert bench.inboxes.is_drained([epoch])
    assert epoch.watermark() == 0


def test_a_retry_that_comes_due_in_a_drain_runs_within_its_limit() -> None:
    """What may still finish does."""
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1")
    bench.fail(bench.call("a"), RetryHead(1.0, "later"))
    above = bench.call("b")
    bench.drain(epoch)
    bench.finish(above)
    bench.check(1.0)
    bench.work()
    assert bench.started == ["a0", "b1", "a0"]
    assert epoch.watermark() == 2


def test_a_failed_record_is_not_overtaken_while_its_partition_drains() -> None:
    """Its key waits for the end of the epoch, whatever its retry; then the other partition's record runs."""
    bench = InboxBench("handler")
    one, two = bench.assign(0), bench.assign(1)
    bench.receive(one, "b0 a1")
    bench.receive(two, "a0")
    bench.fail(bench.call("a"), RetryHead(1.0, "later"))
    bench.drain(one, below_started=False)
    bench.check(1.0)
    bench.work()
    assert bench.started == ["a1"]
    bench.inboxes.end([one])
    bench.work()
    assert bench.started == ["a1", "a0"]
    assert two.watermark() == 1


def test_a_failed_record_keeps_its_key_where_partitions_leave_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The end of one frees nothing that the end of the other would take away: no later record starts."""
    bench = InboxBench("handler")
    both = [bench.assign(0), bench.assign(1)]
    bench.receive(both[0], "a0")
    bench.receive(both[1], "a0 b1")
    bench.fail(bench.call("a"), RetryHead(1.0, "later"))
    running = bench.call("b")
    bench.drain(*both)
    bench.check(1.0)
    appended: list[object] = []
    for way in ("put", "put_all"):
        monkeypatch.setattr(Router, way, lambda _router, _inbox, what: appended.append(what))
    bench.inboxes.end(both)
    assert not appended
    bench.finish(running)
    assert bench.begin() is None
    assert bench.is_empty()


def test_a_letter_on_its_way_is_started_work() -> None:
    """The drain waits for its answer, which counts."""
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1")
    bench.fail(bench.call("b"), AwaitHead("letter", lambda _: None))
    bench.drain(epoch)
    bench.work()
    assert bench.started == ["b1", "a0"]
    assert not bench.inboxes.is_drained([epoch])
    bench.answer(Outcome.DEAD_LETTERED)
    assert bench.inboxes.is_drained([epoch])
    assert epoch.watermark() == 2


@pytest.mark.parametrize("waits", ["paused", "held", "stopped"])
def test_a_drain_does_not_wait_for_what_cannot_run(waits: str) -> None:
    """The next owner handles it."""
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1")
    bench.finish(bench.call("b"))
    if waits == "paused":
        bench.waiting.pause_key(b"a", epoch)
    elif waits == "held":
        bench.fail(bench.call("a"), HoldHead("poison"))
    else:
        bench.inboxes.router.piles.stop()
    bench.drain(epoch)
    assert bench.inboxes.is_drained([epoch])


def test_a_result_after_the_end_counts_for_nothing() -> None:
    """A late success is ignored and counted as that; a late failure is decided by nothing."""
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1 b2")
    late, failing = bench.call("a"), bench.call("b")
    assert bench.inboxes.end([epoch]) == [3]
    bench.finish(late)
    bench.fail(failing, HoldHead("poison"))
    tally = bench.inboxes.tally
    assert (tally.finished_records, tally.stale_records) == (0, 1)
    assert list(bench.inboxes.router.ignored) == [epoch]
    assert bench.begin() is None
    assert bench.is_empty()


def test_a_call_keeps_its_key_over_epochs_and_only_its_key() -> None:
    """However often its partition comes and goes; the key's record is called again once it has ended."""
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1")
    running = bench.call("a")
    for _ in range(3):
        bench.inboxes.end([epoch])
        epoch = bench.assign()
        bench.receive(epoch, "a0 b1")
        bench.check(bench.now_s + 1.0)
        call = bench.call("b")
        assert bench.begin() is None
        bench.finish(call)
    bench.finish(running)
    bench.work()
    assert bench.started == ["a0", "b1", "b1", "b1", "a0"]
    assert epoch.watermark() == 2


def test_the_end_of_one_partition_leaves_the_others_alone() -> None:
    """Theirs go on without pause or repeat."""
    bench = InboxBench()
    one, two = bench.assign(0), bench.assign(1)
    bench.receive(one, "a0 b1")
    bench.receive(two, "a0 b1")
    bench.drain(one)
    bench.inboxes.end([one])
    bench.work()
    assert sorted(bench.started) == ["a0", "b1"]
    assert (two.watermark(), two.tally.returned_records) == (2, 0)


def test_records_wait_until_their_partition_is_open() -> None:
    """Then they start, in order; one that is revoked before starts nothing."""
    bench = InboxBench()
    epoch, gone = bench.assign(0, opened=False), bench.assign(1, opened=False)
    bench.receive(epoch, "a0 a1")
    bench.receive(gone, "a0")
    bench.drain(gone)
    bench.inboxes.end([gone])
    bench.inboxes.open(gone)
    assert bench.begin() is None
    bench.inboxes.open(epoch)
    bench.work()
    assert bench.started == ["a0", "a1"]


def test_a_key_waits_behind_a_partition_that_is_not_open() -> None:
    """With keys as wide as the handler; when that partition goes instead, the key continues."""
    for goes in (False, True):
        bench = InboxBench("handler")
        closed, open_ = bench.assign(0, opened=False), bench.assign(1)
        bench.receive(closed, "a0")
        bench.receive(open_, "a5")
        assert bench.begin() is None
        if goes:
            bench.inboxes.end([closed])
        else:
            bench.inboxes.open(closed)
        bench.work()
        assert bench.started == (["a5"] if goes else ["a0", "a5"])


def test_a_partition_cannot_be_assigned_twice() -> None:
    """Two epochs of one partition at once would be an engine's defect."""
    bench = InboxBench()
    bench.assign()
    with pytest.raises(AssertionError, match="assigned twice"):
        bench.assign()


def test_whether_anything_can_run_is_known() -> None:
    """A stop waits for every partition's work, and for nothing that only waits."""
    bench = InboxBench()
    one, two = bench.assign(0), bench.assign(1)
    assert not bench.inboxes.ending.undrained([one, two])
    bench.receive(one, "a0")
    bench.receive(two, "b0")
    bench.fail(bench.call("a"), HoldHead("poison"))
    assert bench.inboxes.ending.undrained([one, two])
    [call] = at_once(bench)
    assert bench.inboxes.ending.undrained([one, two])
    bench.finish(call)
    assert not bench.inboxes.ending.undrained([one, two])


def test_the_estimate_is_the_workers_share_or_the_longest_key() -> None:
    """A key's records run one after another, whatever runs them."""
    assert Work(100, 10).needs_s(0.1, 5) == pytest.approx(2.0)
    assert Work(100, 50).needs_s(0.1, 5) == pytest.approx(5.0)
