"""Keys in slow start: after a failure or a deferral their records go to consumers by one, two and four."""

from __future__ import annotations

from collections import deque
from typing import Any

from ehkafka.lanes.decision import AwaitHead, RetryHead
from ehkafka.lanes.inboxes import Inboxes
from ehkafka.records import Outcome, TopicPartition
from tests.kit.inbox_bench import InboxBench
from tests.kit.simulated.message import WatchedMessage

DEFERRED = AwaitHead("deferred", lambda _: None)


def tried(records: int = 9) -> tuple[InboxBench, Any]:
    """Bring key `a` in slow start: its first record has failed, and waits for a consumer again."""
    bench = InboxBench(consumers=2)
    epoch = bench.assign()
    bench.receive(epoch, " ".join(f"a{offset}" for offset in range(records)))
    bench.fail(bench.call("a"), RetryHead(1.0, "again"))
    bench.check(1.0)
    return bench, epoch


def at_hand(bench: InboxBench) -> int:
    """Return how many records consumers may take."""
    return sum(len(inbox.q) for inbox in bench.inboxes.inboxes)


def test_after_each_good_end_twice_as_many_go() -> None:
    """In order, and none of them twice."""
    bench, _ = tried(40)
    went = []
    while at_hand(bench):
        went.append(at_hand(bench))
        for _ in range(went[-1]):
            bench.finish(bench.call("a"))
    assert went == [1, 2, 4, 8, 16, 9]
    assert bench.started == ["a0", *(f"a{offset}" for offset in range(40))]
    assert bench.is_empty()


def test_what_has_not_gone_to_a_consumer_counts_as_waiting() -> None:
    """In the backlog, a key of more records than fit there would leave others no room while it is tried."""
    bench, epoch = tried(100)
    bench.receive(epoch, "a100 b101")
    assert (epoch.tally.backlog_records, epoch.tally.parked_records) == (2, 100)
    bench.work()
    assert bench.is_empty()


def test_a_drain_leaves_what_has_not_gone_to_a_consumer() -> None:
    """It has not started, so nothing below it need be finished."""
    bench, epoch = tried()
    bench.receive(epoch, "b9")
    call = bench.call("a")
    assert bench.drain(epoch)
    bench.finish(call)
    assert bench.inboxes.ending.is_drained([epoch])
    bench.work()
    assert bench.started == ["a0", "a0"]
    assert bench.inboxes.ending.end([epoch]) == [9]


def test_no_key_starts_slowly_while_its_partition_drains() -> None:
    """What lies above the highest started offset is left for the next owner."""
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 a1 a2 b3 a4 a5 a6")
    bench.begin("b")
    bench.fail(bench.call("a"), DEFERRED)
    assert bench.drain(epoch)
    bench.answer(Outcome.FINISHED)
    bench.work()
    assert bench.started == ["b3", "a0", "a1", "a2"]


def test_nothing_of_a_key_goes_beside_its_running_record() -> None:
    """The key was paused meanwhile, and its next record sent to the dead letters by hand."""
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 a1 a2 a3 a4")
    bench.waiting.divert = lambda _attempt, *_reason: DEFERRED
    call = bench.call("a")
    bench.waiting.pause_key(b"a", epoch)
    bench.waiting.send_by_hand(bench.held("a", epoch), "by hand", 1)
    bench.waiting.resume_key(b"a", epoch)
    bench.answer(Outcome.DEAD_LETTERED)
    assert bench.begin() is None
    bench.finish(call)
    bench.work()
    assert bench.started == ["a0", "a2", "a3", "a4"]


def test_a_deferral_moves_few_records_however_many_wait() -> None:
    """50 keys of 100 records each, all of which are deferred and answered at once, with four consumers."""
    moved = 0

    class Counted(deque[Any]):
        def append(self, entry: Any) -> None:
            nonlocal moved
            moved += 1
            super().append(entry)

        def extend(self, entries: Any) -> None:
            entries = list(entries)
            nonlocal moved
            moved += len(entries)
            super().extend(entries)

    core = Inboxes(4, make_queue=Counted)
    epoch = core.assign(TopicPartition("t", 0), 1)
    keys = [b"%d" % (offset % 50) for offset in range(5_000)]
    messages: list[Any] = [WatchedMessage("t", 0, offset, key) for offset, key in enumerate(keys)]
    core.receive(epoch, messages, keys, 0.0)
    core.take_touched()
    moved = calls = 0
    while any(inbox.q for inbox in core.inboxes):
        for inbox in core.inboxes:
            if inbox.q:
                inbox.head = entry = inbox.q[0]
                inbox.q.popleft()
                calls += 1
                core.waiting.fail(inbox, ((entry, DEFERRED, ()),), 0.0)
                inbox.head = None
                core.take_touched()
                core.waiting.answer(core.waiting.outbox.popleft(), Outcome.FINISHED, 0.0)
                core.take_touched()
    assert calls == 5_000
    assert core.tally.finished_records == 5_000
    # The first deferral of each key takes all of it out of its inbox.
    assert moved < 10 * calls + 50 * 1_250
