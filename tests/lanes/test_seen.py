"""What a look at a handler's inboxes shows of its partitions and keys."""

from __future__ import annotations

import pytest

from ehkafka.lanes import resizing
from ehkafka.lanes.decision import AwaitHead, HoldHead, RetryHead
from ehkafka.lanes.inbox import KEY, MESSAGE
from ehkafka.lanes.inboxes import Inboxes
from ehkafka.lanes.order import KeyReader
from ehkafka.lanes.seen import EpochSeen, InboxesSeen
from ehkafka.lanes.unread import UNREAD
from ehkafka.records import TopicPartition
from tests.kit.inbox_bench import Call, InboxBench
from tests.kit.simulated.message import WatchedMessage


def looked(bench: InboxBench) -> InboxesSeen:
    """Inspect the inboxes, as their caller does."""
    bench.count()
    return InboxesSeen(bench.inboxes)


def oldest(seen: EpochSeen) -> tuple[int, str, int, str]:
    """Return offset, status, failed calls and last error of the oldest record."""
    record = seen.oldest
    assert record is not None
    return record.entry[MESSAGE].offset(), record.status, record.attempts, record.last_error


def test_what_is_unfinished_is_counted_by_key() -> None:
    """Running, queued and waiting; what has finished is in none of the numbers."""
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1 a2 c3 d4 d5 -6")
    bench.finish(bench.call("c"))
    bench.call("a")
    bench.fail(bench.call("b"), RetryHead(5.0, "broken"))
    bench.fail(bench.call("d"), HoldHead("kept"))
    seen = looked(bench).see(epoch)
    assert (seen.watermark, seen.in_flight_records, seen.blocked_keys, seen.held_keys) == (0, 1, 2, 1)
    assert (seen.keys.count(epoch), seen.keys.records(b"a"), seen.keys.records(b"c")) == (4, 2, 0)
    assert looked(bench).begun(epoch) == {0, 1, 4}
    assert oldest(seen) == (0, "running", 0, "")


def test_each_way_to_wait_has_its_word() -> None:
    """And its reason."""
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1 c2 d3 e4 f5")
    bench.fail(bench.call("a"), RetryHead(5.0, "broken"))
    bench.fail(bench.call("b"), HoldHead("kept"))
    bench.fail(bench.call("c"), AwaitHead("asked", lambda _ticket: None))
    bench.waiting.pause_key(b"d", epoch)
    bench.call("e")
    bench.waiting.divert = lambda _attempt, *_reason: AwaitHead("written", lambda _ticket: None)
    bench.fail(bench.call("f"), HoldHead("kept"))
    bench.waiting.send_by_hand(bench.held("f", epoch), "by hand", 1)
    inspection = looked(bench)
    words = [inspection.record(entry) for entry in epoch.unfinished()]
    reasons = ["retry", "on hold", "your answer", "paused", "running", "broker"]
    assert [one.status.removeprefix("waiting: ") for one in words] == reasons
    assert [one.decision and one.decision.reason for one in words] == [
        "broken",
        "kept",
        "asked",
        "the key is paused",
        None,
        "written",
    ]
    assert [one.attempts for one in words] == [1, 1, 0, 0, 0, 1]
    assert inspection.see(epoch).in_flight_records == 2


def test_records_of_a_stopped_handler_are_paused_except_what_runs() -> None:
    """Nothing of it starts."""
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 a1 b2")
    bench.call("a")
    bench.router.piles.stop()
    inspection = looked(bench)
    assert [inspection.record(entry).status for entry in epoch.unfinished()] == [
        "running",
        "waiting: paused",
        "waiting: paused",
    ]
    assert [one[MESSAGE].offset() for one in inspection.records_of(b"a", epoch)] == [0, 1]


@pytest.mark.parametrize("deferred", [False, True])
def test_a_key_behind_a_call_of_an_ended_epoch_names_that_call(deferred: bool) -> None:
    """Whether it still runs, or waits for its answer."""
    bench = InboxBench()
    first = bench.assign()
    bench.receive(first, "a0")
    worker = bench.call("a")
    if deferred:
        bench.fail(worker, AwaitHead("asked", lambda _ticket: None))
    bench.inboxes.ending.end([first])
    epoch = bench.assign()
    bench.receive(epoch, "a0 a1")
    inspection = looked(bench)
    record = inspection.see(epoch).oldest
    assert record is not None
    assert record.call is not None
    assert (record.status, record.call[3]) == ("waiting: earlier call", first)
    assert [one[MESSAGE].offset() for one in inspection.records_of(b"a", epoch)] == [0, 1]
    assert inspection.see(epoch).in_flight_records == 0


def test_keys_over_partitions_count_where_their_first_record_is() -> None:
    """Each once."""
    bench = InboxBench("handler")
    one, other = bench.assign(0), bench.assign(1)
    bench.receive(one, "a0 b1")
    bench.receive(other, "a0 c1 c2")
    inspection = looked(bench)
    assert [inspection.see(epoch).keys.count(epoch) for epoch in (one, other)] == [2, 1]
    assert inspection.see(other).keys.records(b"a") == 2
    assert [entry[3] for entry in inspection.records_of(b"a", other)] == [one, other]


def test_what_a_drain_leaves_is_not_shown() -> None:
    """It is the next owner's; only what stays here is unfinished here."""
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1 c2 b3")
    bench.finish(bench.call("a"))
    bench.call("c")
    bench.inboxes.ending.drain([epoch], None)
    seen = looked(bench).see(epoch)
    assert oldest(seen) == (2, "running", 0, "")
    assert (seen.keys.count(epoch), seen.watermark) == (1, 1)


def test_records_whose_keys_are_unread_are_seen_as_others() -> None:
    """Their keys are read for it, and where one is to be found from then on."""
    reader = KeyReader()
    inboxes = Inboxes(1, read_keys=reader.keys)
    epoch = inboxes.assign(TopicPartition("t", 0), 1)
    messages = [WatchedMessage("t", 0, offset, key.encode()) for offset, key in enumerate("abac")]
    inboxes.receive(epoch, messages, None, 0.0)
    worker = Call(inboxes.inboxes[0])
    assert worker.start()
    assert worker.key is UNREAD
    inspection = InboxesSeen(inboxes)
    seen = inspection.see(epoch)
    assert oldest(seen) == (0, "running", 0, "")
    assert (seen.in_flight_records, seen.keys.count(epoch), seen.keys.records(b"a")) == (1, 3, 2)
    assert [inspection.record(entry).status for entry in epoch.unfinished()] == ["running", *["queued"] * 3]
    records = inspection.records_of(b"a", epoch)
    assert [entry[MESSAGE].offset() for entry in records] == [0, 2]
    assert [InboxesSeen(inboxes).record(entry).status for entry in records] == ["running", "queued"]


@pytest.mark.parametrize("waits", ["paused", "stopped"])
def test_a_key_is_found_though_the_worker_that_ran_its_record_has_left(waits: str) -> None:
    """It was paused, or its handler stopped, while that record ran; then there are fewer workers."""
    bench = InboxBench(consumers=2)
    inboxes = bench.inboxes
    epoch = bench.assign()
    bench.receive(epoch, "b0 a1 a2")
    workers = [bench.call(key) for key in "ab"]
    call = next(worker for worker in workers if worker.inbox is inboxes.inboxes[1])
    key = call.key
    assert isinstance(key, bytes)
    if waits == "paused":
        bench.waiting.pause_key(key, epoch)
    else:
        inboxes.router.piles.stop()
        bench.receive(epoch, f"{key.decode()}3")
    [gone] = resizing.shrink(inboxes.router, 1)
    bench.finish(call)
    assert resizing.leave(inboxes.router, gone)
    offsets = [entry[MESSAGE].offset() for entry in looked(bench).records_of(key, epoch)]
    assert offsets == [one[MESSAGE].offset() for one in epoch.unfinished() if one[KEY] == key]
    assert inboxes.outliving.free_key(key, epoch) is None
