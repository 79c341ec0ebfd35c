"""When a batch goes, and what is in it: limits, drains, hot keys, and one inbox filled after the other."""

from __future__ import annotations

import threading

import pytest

from ehkafka.headers.size import sizes_of
from ehkafka.lanes.inbox import MESSAGE
from ehkafka.records.batch import Failed
from tests.kit.inbox_bench import read, written
from tests.workers.batches.batch_bench import BatchBench

pytestmark = pytest.mark.usefixtures("_keys")


def test_what_waited_behind_a_long_batch_does_not_wait_again() -> None:
    """The time counts from when the first record was received, not from when its worker saw it."""
    bench = BatchBench(records_max=3, wait_s=1.0)
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1 c2 d3")
    bench.meanwhile = lambda: setattr(bench, "now_s", 5.0)
    assert bench.run() == ["a0", "b1", "c2"]
    assert bench.run() == ["d3"]


def test_a_drain_and_a_hurry_do_not_wait_for_more() -> None:
    """What may still start of a partition that is drained goes at once; at a stop everything does."""
    bench = BatchBench(records_max=2, wait_s=100.0)
    draining, other = bench.assign(0), bench.assign(1)
    bench.receive(draining, "a0 b1 a2")
    bench.meanwhile = lambda: bench.drain(draining)
    assert bench.run() == ["a0", "b1"]
    assert draining.drain_limit == 1
    bench.meanwhile = lambda: None
    bench.inboxes.ending.end([draining])
    bench.receive(other, "a0")
    assert bench.run() is None
    bench.hub.hurry()
    assert bench.run() == ["a0"]


def test_a_drain_starts_at_once_what_waits_below_a_started_record() -> None:
    """The drain waits for it, and no more records of its partition come to fill the batch."""
    bench = BatchBench(consumers=2, records_max=3, wait_s=100.0)
    bench.slow()
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1 c2 d3")
    first, second = sorted(bench.inboxes.inboxes, key=lambda inbox: -len(inbox.q))
    bench.inboxes.take(first, 1)
    bench.inboxes.take(second, 1)
    assert bench.workers._taking.due_s(first, 1.0) > 100.0
    bench.drain(epoch)
    assert epoch.drain_limit == 3
    assert bench.workers._taking.due_s(first, 1.0) == 1.0


def test_a_batch_that_is_not_full_is_not_started() -> None:
    """A revoke finds its records waiting: none is waited for, all are returned."""
    bench = BatchBench(records_max=4, wait_s=1.0)
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1 a2")
    assert bench.run() is None
    bench.drain(epoch)
    assert bench.inboxes.ending.is_drained([epoch])
    assert bench.inboxes.ending.end([epoch]) == [3]


def test_records_fill_one_inbox_before_the_next() -> None:
    """Few full batches rather than many small ones."""
    bench = BatchBench(consumers=4, records_max=3, wait_s=1.0)
    bench.slow()
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1 c2 d3 e4")
    waiting = [len(inbox.q) for inbox in bench.inboxes.inboxes]
    assert sorted(waiting) == [0, 0, 2, 3]
    bench.check(0.01)  # idle workers leave alone what fills
    assert [len(inbox.q) for inbox in bench.inboxes.inboxes] == waiting


def test_what_waits_behind_a_batch_that_takes_long_goes_to_another_worker() -> None:
    """But for its own keys; what comes then does not go there either."""
    bench = BatchBench(consumers=2, records_max=3)
    bench.slow()
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1 c2")
    busy = next(inbox for inbox in bench.inboxes.inboxes if inbox.q)
    bench.inboxes.take(busy, 3)
    bench.receive(epoch, "a3 d4")
    for now_s in (0.0, 0.006):
        bench.check(now_s)
    bench.receive(epoch, "e5")
    other = next(inbox for inbox in bench.inboxes.inboxes if inbox is not busy)
    assert [written(entry) for entry in other.q] == ["d4", "e5"]
    assert [written(entry) for entry in busy.q] == ["a3"]


def test_a_hot_key_takes_turns_though_a_record_of_another_key_is_on_hold() -> None:
    """What has failed before is known for as long as it waits."""
    bench = BatchBench(records_max=4)
    epoch = bench.assign()
    bench.receive(epoch, "x0")
    bench.handle = lambda _batch: {0: Failed(ValueError("no luck"))}
    bench.run()
    bench.receive(epoch, " ".join(f"h{n}" for n in range(1, 20)) + " a20 b21")
    taken = bench.workers._taking.take(bench.inboxes.inboxes[0], spent_s=1.0)
    assert [entry[MESSAGE].offset() for entry in taken] == [1, 20, 21, 2]


@pytest.mark.parametrize("spent_s", [0.0, 1e-5])
def test_records_go_as_they_came_where_calls_are_quick(spent_s: float) -> None:
    """To sort them costs more than such a call."""
    bench = BatchBench(records_max=4)
    epoch = bench.assign()
    bench.receive(epoch, " ".join(f"h{n}" for n in range(6)) + " a6")
    taken = bench.workers._taking.take(bench.inboxes.inboxes[0], spent_s)
    assert [written(entry) for entry in taken] == ["h0", "h1", "h2", "h3"]


def test_only_the_first_and_the_last_record_of_a_batch_wake_its_worker() -> None:
    """The first, so that its time counts; the one that fills it, so that it goes."""
    bench = BatchBench(records_max=3, wait_s=1.0)
    epoch = bench.assign()
    inbox, workers = bench.inboxes.inboxes[0], bench.workers
    inbox.gate = threading.Lock()

    def sleeps() -> bool:
        assert workers._take(inbox) == []
        inbox.asleep = not workers._is_awake(inbox)
        return inbox.asleep

    def is_woken(records: str) -> bool:
        messages = [read(epoch.partition, text, {}) for text in records.split()]
        bench.hub.receive([(epoch, messages, bench.reader.keys(messages), (), sizes_of(messages))])
        woken, inbox.asleep = not inbox.asleep, True
        return woken

    assert sleeps()
    assert is_woken("a0")
    assert sleeps()
    assert not is_woken("b1")
    assert bench.hub.earliest_due_s() == 1.0
    assert is_woken("c2")
