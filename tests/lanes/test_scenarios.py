"""Rules of the inboxes that random histories and seeds seldom come to: each mutant here dies by its story."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.lanes import put_back, resizing
from ehkafka.lanes.decision import AwaitHead, HoldHead, RetryHead
from ehkafka.lanes.inbox import MESSAGE
from ehkafka.records import Outcome
from ehkafka.workers.batches.taking import BatchLimits, Taking
from tests.kit.inbox_bench import Call, InboxBench

if TYPE_CHECKING:
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.inbox import Inbox


def route(bench: InboxBench, epoch: Epoch, inbox: Inbox, records: str) -> None:
    """Receive records while one inbox alone takes new keys, and no consumer asks for any."""
    bench.router.idle.clear()
    bench.router.open = [inbox]
    bench.receive(epoch, records)


def test_a_drain_waits_for_a_letter_on_its_way_and_begins_none_above_its_limit() -> None:
    """Key `a` follows a dead letter, of which one more is on its way, and its partition drains."""
    bench = InboxBench()
    bench.waiting.divert = lambda _attempt, *_reason: AwaitHead("letter", lambda _: None)
    epoch = bench.assign()
    bench.receive(epoch, "a0 a1")
    bench.fail(bench.call(), RetryHead(60.0, "later"))
    bench.waiting.divert_key(bench.held("a", epoch), "no room")
    bench.drain(epoch)
    assert not bench.inboxes.ending.is_drained([epoch])
    bench.answer(Outcome.DEAD_LETTERED)
    assert bench.inboxes.ending.is_drained([epoch])
    assert not bench.waiting.outbox


def test_a_drain_does_not_wait_for_records_above_its_limit_whose_batch_raised() -> None:
    """Key `a` waits for a letter when the drain is cut; once that is sent, its next record may not start."""
    bench = InboxBench(consumers=1)
    epoch = bench.assign()
    bench.receive(epoch, "b0 a1 a2")
    [inbox] = bench.inboxes.inboxes
    entries = bench.inboxes.take(inbox, 3)
    Taking(bench.inboxes, BatchLimits(3, None, 0.0)).narrow(entries, 3)
    put_back.put_back(bench.inboxes, inbox)
    held, sent, later = bench.inboxes.take(inbox, 3)
    letter = AwaitHead("letter", lambda _: None)
    failures = [(held, HoldHead("poison"), []), (sent, letter, [later])]
    bench.waiting.fail(inbox, failures, bench.now_s)
    bench.drain(epoch)
    bench.answer(Outcome.DEAD_LETTERED)
    assert bench.begin() is None
    assert bench.inboxes.ending.is_drained([epoch])


def test_what_is_skipped_for_its_age_is_counted() -> None:
    """Though it never waits."""
    bench = InboxBench()
    bench.receive(bench.assign(), "a0 a1", skipped={0, 1})
    assert bench.inboxes.tally.skipped_records == 2


def test_letters_by_hand_are_of_the_records_that_were_named() -> None:
    """Of three, one goes with its partition; what comes in its place is not sent."""
    bench = InboxBench("handler")
    epochs = [bench.assign(0), bench.assign(1)]
    for place, record in ((0, "a0"), (1, "a0"), (0, "a1")):
        bench.receive(epochs[place], record)
    bench.fail(bench.call(), HoldHead("poison"))
    bench.waiting.divert = lambda *_: AwaitHead("a letter", lambda _ticket: None, "continue")
    bench.waiting.send_by_hand(bench.held("a", epochs[0]), "by hand", 3)
    bench.inboxes.ending.end([epochs[1]])
    bench.receive(epochs[0], "a2")
    sent = 0
    while bench.waiting.outbox:
        bench.answer(Outcome.DEAD_LETTERED)
        sent += 1
    assert sent == 2


def test_a_batch_keeps_its_records_of_other_partitions() -> None:
    """It fails at its first record, whose epoch has ended meanwhile."""
    bench = InboxBench("handler", consumers=1)
    epochs = [bench.assign(0), bench.assign(1)]
    for epoch in epochs:
        bench.receive(epoch, "a0")
    [inbox] = bench.inboxes.inboxes
    first, second = bench.inboxes.take(inbox, 2)
    bench.inboxes.ending.end(epochs[:1])
    bench.waiting.fail(inbox, ((first, RetryHead(0.0, "failed"), [second]),), 0.0)
    assert [entry[MESSAGE] for entry in inbox.q] == [second[MESSAGE]]


def test_what_has_ended_does_not_keep_its_key_where_the_next_record_is_shown() -> None:
    """A key's record has ended and its next one runs elsewhere; where the first was, another is shown."""
    bench = InboxBench(consumers=2)
    epoch = bench.assign()
    one, other = bench.inboxes.inboxes
    route(bench, epoch, other, "a0")
    bench.call().inbox.head = None  # not counted yet
    route(bench, epoch, one, "a1")
    bench.call()
    route(bench, epoch, other, "b2")
    other.head = other.q[0]  # and is preempted before it removes it
    bench.inboxes.ending.end([epoch])
    route(bench, bench.assign(), other, "a1")
    assert not other.q


def test_what_waits_behind_a_long_call_goes_on_where_the_consumer_is_to_leave() -> None:
    """Records of other keys go to who stays; those of the key that runs keep their place."""
    bench = InboxBench(consumers=2)
    epoch = bench.assign()
    _, gone = bench.inboxes.inboxes
    route(bench, epoch, gone, "a0 b1 a2")
    Call(gone).start()
    resizing.shrink(bench.router, 1)
    assert [entry[MESSAGE].offset() for entry in gone.q] == [2]


def test_no_record_goes_where_the_consumer_has_left() -> None:
    """It lists itself as idle while its inbox is taken away, and leaves."""
    bench = InboxBench(consumers=2)
    epoch = bench.assign()
    resizing.grow(bench.router, 1)  # two are left: one alone would get all
    [gone] = resizing.shrink(bench.router, 1)
    bench.router.idle.append(gone)
    assert resizing.leave(bench.router, gone)
    bench.receive(epoch, "a0")
    assert not gone.q


def test_a_key_that_was_put_back_keeps_its_place() -> None:
    """One of two records goes to its paused key as they are put back; the other one's key comes again."""
    bench = InboxBench(consumers=2)
    epoch = bench.assign()
    inbox, other = bench.inboxes.inboxes
    route(bench, epoch, inbox, "a0 b1")
    bench.inboxes.take(inbox, 2)
    bench.waiting.pause_key(b"b", epoch)
    put_back.put_back(bench.inboxes, inbox)
    route(bench, epoch, other, "a2")
    assert not other.q
