"""Keys that wait: for a time, for a command, for an answer. No consumer is held, and no other key waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.lanes.decision import AwaitHead, HoldHead, RetryHead, SkipHead
from ehkafka.lanes.inbox import EPOCH
from ehkafka.lanes.order import by_partition
from ehkafka.records import Outcome
from tests.kit.inbox_bench import InboxBench, at_once

if TYPE_CHECKING:
    from collections.abc import Callable

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


def test_a_key_that_waits_is_counted_whole_and_alone() -> None:
    """Its followers wait, those that come later too; other keys run."""
    bench, epoch = failed(RetryHead(1.0, "later"))
    bench.receive(epoch, "a3")
    tally = bench.inboxes.tally
    assert (tally.parked_records, tally.backlog_records) == (3, 1)
    bench.work()
    assert bench.started == ["a0", "b2"]
    assert (tally.parked_records, tally.backlog_records) == (3, 0)


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


def test_retries_come_in_the_order_of_their_times() -> None:
    """The earliest first."""
    bench = InboxBench(consumers=1)
    bench.receive(bench.assign(), "a0 b1 c2")
    for key, after_s in (("a", 3.0), ("b", 1.0), ("c", 2.0)):
        bench.fail(bench.call(key), RetryHead(after_s, "later"))
    for now_s in (1.0, 2.0, 3.0):
        assert bench.waiting.next_due_s() == now_s
        bench.check(now_s)
        bench.work()
    assert bench.started == ["a0", "b1", "c2", "b1", "c2", "a0"]


def test_ten_thousand_retries_keep_few_entries() -> None:
    """Bookkeeping follows the keys that wait, not the retries that they had."""
    bench, epoch = failed(RetryHead(1_000.0, "later"))
    for _ in range(10_000):
        bench.waiting.retry_key(b"a", epoch)
        bench.fail(bench.call("a"), RetryHead(1_000.0, "later"))
    assert len(bench.waiting._timers) < 200
    assert bench.inboxes.router.attempt_of(bench.held("a", epoch).q[0]).number == 10_002


def test_a_record_on_hold_waits_for_a_command() -> None:
    """No time lets it go; `retry_key` does, and its record knows how often it failed."""
    bench, epoch = failed(HoldHead("poison"))
    bench.check(1e9)
    assert bench.begin("a") is None
    assert bench.waiting.retry_key(b"a", epoch)
    call = bench.call("a")
    assert bench.inboxes.router.attempt_of(call.entry).number == 2
    bench.finish(call)
    assert bench.inboxes.router.attempt_of(bench.call("a").entry).number == 1


def test_a_time_that_a_command_overtook_ends_no_later_hold() -> None:
    """The key fails again: only its new time counts."""
    bench, epoch = failed(RetryHead(1.0, "later"))
    bench.waiting.retry_key(b"a", epoch)
    bench.fail(bench.call("a"), RetryHead(5.0, "later"))
    bench.check(1.0)
    assert bench.begin("a") is None


@pytest.mark.parametrize("records", [1, 2, 9])
def test_records_on_hold_are_skipped_in_one_go(records: int) -> None:
    """They have a result and no consumer sees them; the rest of the key runs."""
    bench, epoch = failed(HoldHead("poison"), "a0 a1 a2")
    assert bench.waiting.skip_key(b"a", epoch, records) == min(records, 3)
    bench.work()
    assert bench.started == ["a0", *["a1", "a2"][records - 1 :]]
    assert epoch.tally.skipped_records == min(records, 3)
    assert epoch.watermark() == 3
    assert bench.is_empty()


def test_commands_leave_keys_alone_that_do_not_wait() -> None:
    """A queued or running key has no first record to skip or to retry."""
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1")
    bench.call("a")
    for key in (b"a", b"b", b"c"):
        assert not bench.waiting.retry_key(key, epoch)
        assert not bench.waiting.skip_key(key, epoch)
        assert not bench.waiting.resume_key(key, epoch)


def test_a_policy_may_skip_a_record() -> None:
    """Its key continues at once."""
    bench, epoch = failed(SkipHead("not for us"))
    bench.work()
    assert sorted(bench.started) == ["a0", "a1", "b2"]
    assert (epoch.tally.skipped_records, epoch.tally.finished_records) == (1, 2)


def test_a_paused_key_starts_nothing_more() -> None:
    """What runs ends first; queued and new records wait, in this assignment alone."""
    bench = InboxBench()
    epoch, other = bench.assign(0), bench.assign(1)
    bench.receive(epoch, "a0 a1 b2")
    call = bench.call("a")
    assert bench.waiting.pause_key(b"a", epoch)
    assert not bench.waiting.pause_key(b"a", epoch)
    bench.finish(call)
    bench.receive(epoch, "a3")
    bench.receive(other, "a0")
    bench.work()
    assert sorted(bench.started) == ["a0", "a0", "b2"]
    assert bench.waiting.resume_key(b"a", epoch)
    bench.work()
    assert bench.started[-2:] == ["a1", "a3"]
    assert bench.is_empty()


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


def test_a_key_resumed_while_its_record_runs_waits_for_that() -> None:
    """A pause that came and went changes nothing of its order."""
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 a1")
    call = bench.call("a")
    bench.waiting.pause_key(b"a", epoch)
    bench.waiting.resume_key(b"a", epoch)
    bench.receive(epoch, "a2")
    assert bench.begin("a") is None
    bench.finish(call)
    bench.work()
    assert bench.started == ["a0", "a1", "a2"]


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


@pytest.mark.parametrize("opens_first", [False, True])
def test_what_is_paused_and_not_open_waits_for_both(opens_first: bool) -> None:
    """Neither the opening nor the resume alone starts it."""
    bench = InboxBench()
    epoch = bench.assign(opened=False)
    bench.receive(epoch, "a0")
    bench.waiting.pause_key(b"a", epoch)
    steps: list[Callable[[], object]] = [
        lambda: bench.inboxes.open(epoch),
        lambda: bench.waiting.resume_key(b"a", epoch),
    ]
    steps[not opens_first]()
    assert bench.begin() is None
    steps[opens_first]()
    assert bench.call().text == "a0"


def test_a_stopped_handler_starts_nothing_and_continues_in_order() -> None:
    """What waits, what runs once it has ended, retries that come due, and what comes later."""
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 a1 b2 c3")
    running, retried = bench.call("a"), bench.call("c")
    bench.fail(retried, RetryHead(1.0, "later"))
    router = bench.inboxes.router
    assert router.piles.stop()
    assert not router.piles.stop()
    bench.finish(running)
    bench.receive(epoch, "a4 d5")
    bench.check(1.0)
    assert bench.begin() is None
    assert router.piles.resume()
    assert not router.piles.resume()
    bench.work()
    assert [text for text in bench.started if text[0] == "a"] == ["a0", "a1", "a4"]
    assert sorted(bench.started) == ["a0", "a1", "a4", "b2", "c3", "c3", "d5"]
    assert bench.is_empty()


def test_what_waits_ends_with_its_partition() -> None:
    """Keys of a lost partition are forgotten; they are the next owner's."""
    bench, epoch = failed(HoldHead("poison"))
    bench.waiting.pause_key(b"b", epoch)
    assert bench.inboxes.end([epoch]) == [3]
    assert not bench.waiting.held
    assert bench.waiting.next_due_s() is None
    assert bench.is_empty()


@pytest.mark.parametrize(("after", "runs"), [("continue", True), ("hold_key", False), ("divert_key", False)])
def test_after_a_dead_letter_a_key_does_what_its_policy_demands(after: Any, runs: bool) -> None:
    """It runs on, waits, or follows its record."""
    bench, epoch = failed(letter(after), "a0 a1")
    bench.waiting.divert = lambda _attempt, *_reason: letter("divert_key")
    assert bench.begin() is None
    bench.answer(Outcome.DEAD_LETTERED)
    assert epoch.watermark() == 1
    assert (bench.begin() is not None) is runs
    assert bool(bench.waiting.outbox) is (after == "divert_key")


def test_letters_by_hand_go_one_after_another_and_the_rest_runs() -> None:
    """As many as were asked for."""
    bench, epoch = failed(HoldHead("poison"), "a0 a1 a2")
    bench.waiting.divert = lambda *_: letter()
    bench.waiting.send_by_hand(bench.held("a", epoch), "by hand", 2)
    for sent in (1, 2):
        assert len(bench.waiting.outbox) == 1
        bench.answer(Outcome.DEAD_LETTERED)
        assert epoch.tally.dead_lettered_records == sent
    bench.work()
    assert bench.started == ["a0", "a2"]
    assert bench.is_empty()


def test_a_letter_by_hand_that_is_refused_leaves_its_record_on_hold() -> None:
    """And the others behind it."""
    bench, epoch = failed(HoldHead("poison"), "a0 a1")
    bench.waiting.divert = lambda *_: letter()
    bench.waiting.send_by_hand(bench.held("a", epoch), "by hand", 2)
    bench.answer(HoldHead("refused"))
    assert bench.begin() is None
    assert not bench.waiting.outbox
    assert bench.held("a", epoch).ticket is None


def test_a_key_over_partitions_is_one() -> None:
    """With keys as wide as the handler, the second partition's record waits; each position knows its own."""
    bench = InboxBench("handler")
    one, two = bench.assign(0), bench.assign(1)
    bench.receive(one, "a0")
    bench.receive(two, "a0 b1")
    bench.fail(bench.call("a"), HoldHead("poison"))
    bench.work()
    assert bench.started == ["a0", "b1"]
    assert (one.watermark(), two.watermark()) == (0, 0)
    bench.inboxes.end([one])
    [held] = bench.waiting.held or [None]
    assert held is None or all(entry[EPOCH] is two for entry in held.q)
    bench.work()
    assert bench.started == ["a0", "b1", "a0"]
    assert two.watermark() == 2


def test_a_blocked_key_delays_no_other_however_many_wait_behind_it() -> None:
    """One consumer hangs; what waits there goes elsewhere at the next look."""
    bench = InboxBench(consumers=2)
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1 c2 d3 e4 a5")
    blocked = bench.call("a")
    for now_s in (1.0, 2.0, 3.0):
        bench.check(now_s)
        bench.work()
    assert sorted(bench.started) == ["a0", "b1", "c2", "d3", "e4"]
    bench.finish(blocked)
    bench.work()
    assert bench.started[-1] == "a5"


def test_no_more_records_run_than_there_are_keys() -> None:
    """Keys are equal by their bytes; one for a partition where that is the order."""
    bench = InboxBench()
    bench.receive(bench.assign(), " ".join(f"{key}{n}" for n, key in enumerate("ababab")))
    assert len(at_once(bench)) == 2
    bench = InboxBench(order_by=by_partition)
    bench.receive(bench.assign(), "a0 b1 c2")
    assert len(at_once(bench)) == 1


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


def test_without_any_partition_a_shared_key_waits_for_no_later_record() -> None:
    """Its last letter is answered after its partition has gone."""
    bench = InboxBench("handler")
    epoch = bench.assign()
    bench.waiting.divert = lambda _attempt, *_reason: letter("divert_key")
    bench.receive(epoch, "a0 a1")
    bench.fail(bench.call("a"), letter("divert_key"))
    bench.answer(Outcome.DEAD_LETTERED)
    bench.inboxes.end([epoch])
    assert bench.waiting.held
    bench.answer(Outcome.DEAD_LETTERED)
    assert not bench.waiting.held
