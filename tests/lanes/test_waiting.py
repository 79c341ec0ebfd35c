"""Keys that wait: for a time, for a command, for an answer. No consumer is held, and no other key waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ehkafka.lanes.decision import AwaitHead, HoldHead, RetryHead
from tests.kit.inbox_bench import InboxBench

if TYPE_CHECKING:
    from ehkafka.lanes.decision import Decision
    from ehkafka.lanes.epoch import Epoch


def failed(decision: Decision, records: str = "a0 a1 b2") -> tuple[InboxBench, Epoch]:
    """Let the first record of key `a` fail."""
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, records)
    bench.fail(bench.call("a"), decision)
    return bench, epoch


def letter(after: Any = "continue") -> AwaitHead:
    """Return the decision to send a dead letter."""
    return AwaitHead("letter", lambda _: None, after)


def test_a_retry_runs_again_before_its_followers_and_not_earlier() -> None:
    """It comes when it is due and not a moment before."""
    bench, _ = failed(RetryHead(1.0, "later"))
    bench.check(0.999)
    bench.work()
    assert bench.started == ["a0", "b2"]
    bench.check(1.0)
    bench.work()
    assert bench.started == ["a0", "b2", "a0", "a1"]
    assert bench.is_empty()


def test_ten_thousand_retries_keep_few_entries() -> None:
    """Bookkeeping follows the keys that wait, not the retries that they had."""
    bench, epoch = failed(RetryHead(1_000.0, "later"))
    for _ in range(10_000):
        bench.waiting.retry_key(b"a", epoch)
        bench.fail(bench.call("a"), RetryHead(1_000.0, "later"))
    assert len(bench.waiting._timers) < 200
    assert bench.inboxes.router.attempt_of(bench.held("a", epoch).q[0]).number == 10_002


def test_a_time_that_a_command_overtook_ends_no_later_hold() -> None:
    """The key fails again: only its new time counts."""
    bench, epoch = failed(RetryHead(1.0, "later"))
    bench.waiting.retry_key(b"a", epoch)
    bench.fail(bench.call("a"), RetryHead(5.0, "later"))
    bench.check(1.0)
    assert bench.begin("a") is None


def test_a_key_is_held_whose_record_has_ended() -> None:
    """As after a dead letter, with the reason of now; what runs of it ends, and a command lets it go."""
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 a1 b2")
    call = bench.call("a")
    for _ in range(2):
        bench.waiting.hold_key(call.entry, HoldHead("its output is kept", letter_refused=True))
    bench.finish(call)
    bench.receive(epoch, "a3 b4")
    bench.work()
    assert sorted(bench.started) == ["a0", "b2", "b4"]
    held = bench.waiting.find(b"a", epoch)
    assert held is not None
    assert held.decision == HoldHead("its output is kept", letter_refused=True)
    assert bench.waiting.retry_key(b"a", epoch)
    bench.work()
    assert bench.started[-2:] == ["a1", "a3"]
    assert bench.is_empty()


def test_a_pause_wins_over_a_time_and_a_time_over_a_resume() -> None:
    """A retry that comes due waits for the resume; one that is not due does not come with it."""
    bench, epoch = failed(RetryHead(1.0, "later"))
    bench.waiting.pause_key(b"a", epoch)
    bench.waiting.resume_key(b"a", epoch)
    assert bench.begin("a") is None
    bench.waiting.pause_key(b"a", epoch)
    bench.check(1.0)
    assert bench.begin("a") is None
    bench.waiting.resume_key(b"a", epoch)
    assert bench.call("a").text == "a0"


def test_a_letter_by_hand_that_is_refused_leaves_its_record_on_hold() -> None:
    """And the others behind it."""
    bench, epoch = failed(HoldHead("poison"), "a0 a1")
    bench.waiting.divert = lambda *_: letter()
    bench.waiting.send_by_hand(bench.held("a", epoch), "by hand", 2)
    bench.answer(HoldHead("refused"))
    assert bench.begin() is None
    assert not bench.waiting.outbox
    assert bench.held("a", epoch).ticket is None


def test_a_hundred_thousand_keys_leave_little_behind() -> None:
    """What is kept of keys follows the backlog."""
    bench = InboxBench(order_by=lambda message: message.offset())
    epoch = bench.assign()
    for first in range(0, 100_000, 1_000):
        bench.receive(epoch, " ".join(f"a{offset}" for offset in range(first, first + 1_000)))
        bench.work()
        bench.check()
    assert len(epoch.owners) <= 6_000
    assert bench.is_empty()
