"""Partitions that go: what still runs, what is left for the next owner, and what counts."""

from __future__ import annotations

import pytest

from ehkafka.lanes.decision import HoldHead, RetryHead
from ehkafka.lanes.ending import Work
from ehkafka.lanes.routing import Router
from tests.kit.inbox_bench import InboxBench


def test_a_drain_finishes_what_lies_below_the_highest_started_offset() -> None:
    """With offset 3 running, 0 to 3 still run and 4 is left; the commit has no hole below it."""
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1 a2 d3 a4")
    running = bench.call("d")
    assert bench.drain(epoch)
    assert epoch.tally.returned_records == 1
    assert not bench.inboxes.ending.is_drained([epoch])
    bench.finish(running)
    bench.work()
    assert bench.inboxes.ending.is_drained([epoch])
    assert sorted(bench.started) == ["a0", "a2", "b1", "d3"]
    assert epoch.watermark() == 4


def test_a_drain_with_nothing_started_leaves_everything() -> None:
    """What waits is the next owner's, who repeats nothing."""
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1")
    bench.drain(epoch)
    assert bench.inboxes.ending.is_drained([epoch])
    assert (epoch.tally.returned_records, epoch.watermark()) == (2, 0)


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

    bench.inboxes.ending.drain([one, two], fits)
    assert asked == [Work(5, 3)]


def test_a_drain_that_turns_out_too_long_is_cut_short_later() -> None:
    """Asked again, with what is left; the running record still ends."""
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 a1 b2")
    running, _ = bench.call("a"), bench.call("b")
    assert bench.inboxes.ending.drain([epoch], lambda _work: True)
    assert not bench.inboxes.ending.drain([epoch], lambda _work: False)
    bench.finish(running)
    assert bench.begin() is None
    assert epoch.watermark() == 1


@pytest.mark.parametrize(("after_s", "watermark"), [(60.0, 0), (1.0, 1)], ids=["later", "due"])
def test_a_record_that_fails_during_a_drain_holds_the_position(after_s: float, watermark: int) -> None:
    """What lies above it is left at the next look: the hole is there anyway. A due retry is called."""
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1 a2 c3")
    failing, running = bench.call("a"), bench.call("c")
    bench.drain(epoch)
    bench.fail(failing, RetryHead(after_s, "later"))
    bench.drain(epoch)
    bench.finish(running)
    bench.check(1.0)
    bench.work()
    assert bench.inboxes.ending.is_drained([epoch])
    assert bench.started == ["a0", "c3", "a0"][: 2 + watermark]
    assert epoch.watermark() == watermark


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
    bench.inboxes.ending.end(both)
    assert not appended
    bench.finish(running)
    assert bench.begin() is None
    assert bench.is_empty()


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
    assert bench.inboxes.ending.is_drained([epoch])
