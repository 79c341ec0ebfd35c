"""The watermark: how far a commit may go, whatever finished in whatever order."""

from __future__ import annotations

import pytest

from ehkafka.lanes.decision import SkipHead
from ehkafka.lanes.inbox import KEY
from tests.kit.inbox_bench import InboxBench


def _ten_keys() -> str:
    return " ".join(f"{chr(97 + offset)}{offset}" for offset in range(10))


def test_an_unfinished_first_record_holds_the_watermark_back() -> None:
    """With offset 0 in flight and 1 to 9 finished it stays at 0, and is 10 when 0 finishes."""
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, _ten_keys())
    first = bench.call()
    bench.work()
    assert epoch.watermark() == 0
    bench.finish(first)
    assert epoch.watermark() == 10


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


def test_a_log_that_starts_late_is_counted_from_there() -> None:
    """Ten records from offset 500 done make 510."""
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, " ".join(f"a{offset}" for offset in range(500, 510)))
    bench.work()
    assert epoch.watermark() == 510


def test_without_a_record_there_is_no_watermark() -> None:
    """An epoch that received nothing has nothing to commit."""
    assert InboxBench().assign().watermark() is None


def test_a_skipped_record_is_passed_and_counted() -> None:
    """Skipped is an outcome; its lane goes on with the next record."""
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 a1")
    bench.fail(bench.call(), SkipHead("not for us"))
    assert epoch.watermark() == 1
    assert (epoch.tally.skipped_records, bench.inboxes.tally.skipped_records) == (1, 1)
    bench.work()
    assert epoch.watermark() == 2
    assert (epoch.tally.finished_records, bench.inboxes.tally.finished_records) == (1, 1)
    assert bench.is_empty()


def test_records_that_an_earlier_epoch_finished_are_not_run_again() -> None:
    """With 0 to 9 finished but for 2 and 4, only those two run and the watermark ends at 10."""
    bench = InboxBench()
    epoch = bench.assign(finished_before={0, 1, 3, 5, 6, 7, 8, 9})
    bench.receive(epoch, _ten_keys())
    assert epoch.watermark() == 2
    assert bench.inboxes.tally.backlog_records == 2
    bench.work()
    assert bench.started == ["c2", "e4"]
    assert epoch.watermark() == 10
    assert epoch.tally.finished_records == 10
    assert bench.is_empty()


def test_a_batch_that_was_wholly_finished_before_moves_the_watermark() -> None:
    """Nothing is left to run, and the position moves on all the same."""
    bench = InboxBench()
    epoch = bench.assign(finished_before=range(10))
    bench.receive(epoch, "a0 b1")
    assert epoch.watermark() == 2
    assert bench.begin() is None


def test_the_leader_epoch_before_the_watermark_is_known() -> None:
    """The batch that brought an offset is found, also when the epoch changes inside one fetch."""
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1", leader_epoch=4)
    bench.now_s = 5.0
    bench.receive(epoch, "c2 d3", leader_epoch=5)
    marks = [epoch.received.marks.at(offset) for offset in range(5)]
    assert [mark and mark.leader_epoch for mark in marks] == [4, 4, 5, 5, None]
    assert marks[2] is not None
    assert marks[2].received_at_s == 5.0


def test_a_leader_epoch_that_changes_within_a_batch_is_kept_apart() -> None:
    """A commit carries the epoch of the record before it, not the batch's last one."""
    bench = InboxBench()
    epoch = bench.assign()
    older = InboxBench().receive(epoch, "a0 b1", leader_epoch=4)
    newer = InboxBench().receive(bench.assign(1), "c2 d3", leader_epoch=5)
    twin = bench.assign(2)
    messages = [*older, *newer]
    bench.inboxes.receive(twin, messages, bench.reader.keys(messages), 0.0)
    epochs = [mark and mark.leader_epoch for mark in map(twin.received.marks.at, range(4))]
    assert epochs == [4, 4, 5, 5]


def test_marks_below_the_commit_are_forgotten() -> None:
    """What is kept of batches does not grow with the log; the record before the commit is kept."""
    bench = InboxBench()
    epoch = bench.assign()
    for offset in range(100):
        bench.receive(epoch, f"a{offset}")
    bench.work()
    epoch.received.trim_marks(100)
    assert len(epoch.received.marks) == 1
    assert epoch.received.marks.at(99) is not None


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
