"""The watermark: how far a commit may go, whatever finished in whatever order."""

from __future__ import annotations

import pytest

from ehkafka.lanes.inbox import KEY
from tests.kit.inbox_bench import InboxBench


def test_a_tombstone_holds_the_watermark_back_like_any_record() -> None:
    """A record without a value has length 0, and is a record all the same."""
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 a1", value=None)
    call = bench.call()
    assert epoch.watermark() == 0
    bench.finish(call)
    assert epoch.watermark() == 1
    bench.work()
    assert epoch.watermark() == 2
    assert bench.is_empty()


def test_holes_in_the_log_are_passed() -> None:
    """With gaps from compaction, the watermark is the last offset plus one, and never a gap's inside."""
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a3 b7 c20")
    assert epoch.watermark() == 3
    first = bench.call()
    bench.finish(first)
    assert epoch.watermark() == 7
    bench.work()
    assert epoch.watermark() == 21


def test_without_a_record_there_is_no_watermark() -> None:
    """An epoch that received nothing has nothing to commit."""
    assert InboxBench().assign().watermark() is None


def test_the_leader_epoch_before_the_watermark_is_known() -> None:
    """The batch that brought an offset is found, also when the epoch changes inside one fetch."""
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1", leader_epoch=4)
    bench.now_s = 5.0
    bench.receive(epoch, "c2 d3", leader_epoch=5)
    batches = [epoch.received.batches.at(offset) for offset in range(5)]
    assert [batch and batch.leader_epoch for batch in batches] == [4, 4, 5, 5, None]
    assert batches[2] is not None
    assert batches[2].received_at_s == 5.0


def test_a_leader_epoch_that_changes_within_a_batch_is_kept_apart() -> None:
    """A commit carries the epoch of the record before it, not the batch's last one."""
    bench = InboxBench()
    epoch = bench.assign()
    older = InboxBench().receive(epoch, "a0 b1", leader_epoch=4)
    newer = InboxBench().receive(bench.assign(1), "c2 d3", leader_epoch=5)
    twin = bench.assign(2)
    messages = [*older, *newer]
    bench.inboxes.receive(twin, messages, bench.reader.keys(messages), 0.0)
    epochs = [batch and batch.leader_epoch for batch in map(twin.received.batches.at, range(4))]
    assert epochs == [4, 4, 5, 5]


def test_batches_below_the_commit_are_forgotten() -> None:
    """What is kept of batches does not grow with the log; the record before the commit is kept."""
    bench = InboxBench()
    epoch = bench.assign()
    for offset in range(100):
        bench.receive(epoch, f"a{offset}")
    bench.work()
    epoch.received.trim_batches(100)
    assert len(epoch.received.batches) == 1
    assert epoch.received.batches.at(99) is not None


@pytest.mark.parametrize("way", ["received", "placed"])
def test_what_was_seen_to_have_ended_is_never_counted_as_running_again(way: str) -> None:
    """Its key went on elsewhere by that: a commit would tell the later record of the key, and not this one.

    Its consumer has shown the next record, and lost the interpreter before it removed that.
    """
    bench = InboxBench(consumers=2)
    epoch = bench.assign()
    bench.receive(epoch, "a0")
    first = bench.call("a")
    inbox = first.inbox
    inbox.head = None  # the call has ended
    epoch.drain_limit = None if way == "received" else 10  # while a drain goes on, each is placed by itself
    bench.receive(epoch, "a1")
    epoch.drain_limit = None
    assert not inbox.q, "the key goes to a consumer that has nothing"
    bench.receive(epoch, "b2")
    for entry in [one for each in bench.inboxes.inboxes for one in each.take_back()]:
        bench.inboxes.router.put(inbox if entry[KEY] == b"b" else bench.inboxes.inboxes[1], entry)
    inbox.head = inbox.q[0]  # shown, and not removed
    later = bench.call("a")
    bench.finish(later)
    bench.inboxes.router.note_all()
    assert epoch.watermark() == 2
