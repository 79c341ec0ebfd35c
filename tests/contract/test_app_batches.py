"""Batch handlers: how batches fill, whose records they hold, and what a stop or a revoke does."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

import ehkafka
from ehkafka.events import CommitAcknowledged, StaleResult, StuckReport
from ehkafka.testing import ApiKey
from tests.contract.batch_store import Store
from tests.kit.checker.checking_history import CheckingHistory
from tests.kit.unstolen import unstolen_s

# --- filling ---


def test_a_batch_goes_when_it_is_full_and_the_rest_when_its_time_is_up(
    lab: Any, store_app: Any, wait_for: Any
) -> None:
    """25 records, ten a batch: two go at once, five after wait_s_max; all are committed."""
    store = Store()
    app = store_app(store, batch_records_max=10, wait_s_max=0.4, workers=1)
    app.start()
    wait_for(lambda: app.snapshot().partitions)
    lab.produce("a b c d e " * 5)
    wait_for(lambda: store.finished == 20)
    began_s = time.monotonic()
    wait_for(lambda: store.finished == 25)
    assert time.monotonic() - began_s > 0.1
    app.stop()
    assert store.sizes == [10, 10, 5]
    assert lab.committed() == 25


def test_a_batch_without_time_to_wait_goes_at_once(lab: Any, store_app: Any, wait_for: Any) -> None:
    """With wait_s_max=0 a single record does not wait for others."""
    store = Store()
    app = store_app(store, batch_records_max=100, wait_s_max=0.0)
    app.start()
    wait_for(lambda: app.snapshot().partitions)
    for number in range(3):
        lab.produce("a")
        wait_for(lambda number=number: store.finished == number + 1)
    app.stop()


def test_max_bytes_bounds_a_batch(lab: Any, store_app: Any, wait_for: Any) -> None:
    """Values of 40 bytes and room for 100: two a batch; a larger one goes alone."""
    store = Store()
    lab.produce("a b c d", value=b"x" * 40)
    lab.produce("e", value=b"x" * 400)
    app = store_app(store, batch_bytes_max=100, wait_s_max=0.2, workers=1)
    app.start()
    wait_for(lambda: store.finished == 5)
    app.stop()
    assert store.batches[:2] == [[(0, 0), (0, 1)], [(0, 2), (0, 3)]]
    assert store.batches[2] == [(0, 4)]


def test_by_partition_gives_a_partition_whole_and_in_order(lab: Any, store_app: Any, wait_for: Any) -> None:
    """No two batches have records of one partition, and each goes on where the last one ended."""
    store = Store(lambda _batch: time.sleep(0.005))
    store.gate.clear()
    app = store_app(store, "t4", order_by=ehkafka.by_partition, batch_records_max=16, workers=4)
    app.start()
    # The second half comes when it is known that calls take long: until then one worker has all.
    for records in (80, 160):
        for partition in range(4):
            lab.produce("a b c d " * 10, topic="t4", partition=partition)
        wait_for(lambda records=records: app.snapshot().received_records >= 1.5 * records)
        wait_for(lambda: store.running >= 1)
        time.sleep(0.1)
    store.gate.set()
    wait_for(lambda: store.finished == 320)
    app.stop()
    for partition in range(4):
        handled = [offset for offsets in store.offsets(partition) for offset in offsets]
        assert handled == list(range(80))


def test_handler_scope_gives_a_key_of_several_partitions_one_lane(
    lab: Any, store_app: Any, wait_for: Any
) -> None:
    """One record of a key in each batch, each partition's commit right."""
    lab.checker_options = {"lane_scope": lambda _partition: "one handler"}
    store = Store()
    lab.produce("K x K", topic="t4", partition=0)
    lab.produce("K y K", topic="t4", partition=1)
    app = store_app(store, "t4", scope="handler", wait_s_max=0.1)
    app.start()
    wait_for(lambda: store.finished == 6)
    app.stop()
    assert [lab.committed(partition, topic="t4") for partition in (0, 1)] == [3, 3]


# --- order and limits ---


def test_a_hot_key_does_not_fill_every_batch(lab: Any, store_app: Any, wait_for: Any) -> None:
    """More than a batch of one key is in front: of what is at hand, the others are in the next batch."""
    store = Store()
    app = store_app(store, batch_records_max=50, wait_s_max=0.1, workers=1)
    store.gate.clear()
    lab.produce("first")
    app.start()
    wait_for(lambda: store.running == 1)
    # Two batches are received while the only worker is busy, and no more than some of the rest.
    lab.produce("hot " * 75 + " ".join(f"k{n}" for n in range(20)) + " hot" * 500)
    wait_for(lambda: app.snapshot().received_records >= 96)
    time.sleep(0.05)  # a call that is short for what waits lets keys take no turns
    store.gate.set()
    wait_for(lambda: store.finished == 596)
    app.stop()
    cool = [number for number, offsets in enumerate(store.offsets()) if any(75 < o <= 95 for o in offsets)]
    assert cool == [1]


def test_no_key_waits_behind_a_hot_one_while_a_worker_is_free(
    lab: Any, store_app: Any, wait_for: Any
) -> None:
    """With 2000 records of one key in front, the others are received and end during its first batch."""
    go_on = threading.Event()

    def work(batch: ehkafka.Batch) -> None:
        if any(record.key() == b"hot" for record in batch):
            assert go_on.wait(30.0)

    store = Store(work)
    app = store_app(store, batch_records_max=50, wait_s_max=0.1, workers=2)
    lab.produce("hot " * 2_000 + " ".join(f"k{n}" for n in range(20)))
    app.start()
    wait_for(lambda: store.finished == 20)
    assert store.running == 1
    go_on.set()
    wait_for(lambda: store.finished == 2_020)
    app.stop()


# --- stop and revoke ---


def test_a_stop_hands_the_waiting_batch_over_at_once(lab: Any, store_app: Any, wait_for: Any) -> None:
    """An hour to wait is not waited; all of it ends and is committed."""
    store = Store()
    lab.produce("a b c a")
    app = store_app(store, batch_records_max=100, wait_s_max=3600.0)
    app.start()
    wait_for(lambda: app.snapshot().received_records == 4)
    time.sleep(0.1)
    assert store.batches == []
    began_s = unstolen_s()
    app.stop(drain="all")
    assert unstolen_s() - began_s < 3.0
    assert lab.committed() == 4
    assert store.sizes == [4]


def test_a_batch_that_takes_long_for_once_holds_nobody_up(lab: Any, store_app: Any, wait_for: Any) -> None:
    """Quick batches before it, all with one worker: others take over."""
    go_on, began = threading.Event(), threading.Event()

    def work(batch: Any) -> None:
        if any(record.value() == b"slow" for record in batch):
            began.set()
            assert go_on.wait(30.0)

    store = Store(work)
    app = store_app(store, batch_records_max=10, wait_s_max=0.0, workers=4)
    app.start()
    wait_for(lambda: app.snapshot().partitions)
    for number in range(5):
        lab.produce("a b c d e")
        wait_for(lambda number=number: store.finished == 5 * (number + 1))
    lab.produce("s", value=b"slow")
    assert began.wait(30.0)
    lab.produce("f g h")
    wait_for(lambda: store.finished == 28)
    go_on.set()
    wait_for(lambda: store.finished == 29)
    app.stop()
    assert lab.committed() == 29


def test_a_stop_without_drain_ends_what_runs_only(lab: Any, store_app: Any, wait_for: Any) -> None:
    """The running batch ends, its followers too, and is committed; the rest neither starts nor counts."""
    store = Store()
    store.gate.clear()
    lab.produce("a a b a b c")
    app = store_app(store, batch_records_max=4, workers=1)
    app.start()
    wait_for(lambda: store.running == 1)
    lab.produce("a b c")
    wait_for(lambda: app.snapshot().received_records == 9)
    threading.Timer(0.3, store.gate.set).start()
    app.stop(drain=False)
    assert len(store.batches) == 1
    assert lab.committed() == min(set(range(9)) - {offset for _, offset in store.batches[0]})


def test_a_batch_that_never_returns_is_named_at_the_deadline(lab: Any, store_app: Any, wait_for: Any) -> None:
    """The stop ends in time and says where its keys stand."""
    store = Store()
    store.gate.clear()
    lab.produce("a b")
    app = store_app(store, batch_records_max=2)
    app.start()
    wait_for(lambda: store.running == 1)
    began_s = unstolen_s()
    with pytest.raises(ehkafka.errors.UnfinishedError, match=r"t\[0\]@0 key a, t\[0\]@1 key b"):
        app.stop(timeout_s=0.5)
    assert unstolen_s() - began_s < 2.0
    assert lab.committed() in (None, 0)


def test_a_revoke_while_a_batch_fills_starts_nothing_of_it(lab: Any, store_app: Any, wait_for: Any) -> None:
    """Collected and not started: it is given back at once, and the next owner has it once."""
    slow = {"session.timeout.ms": 3_000}
    first, second = Store(), Store()
    for partition in range(4):
        lab.produce("a b c", topic="t4", partition=partition)
    one = store_app(first, "t4", batch_records_max=100, wait_s_max=3600.0, consumer=slow)
    two = store_app(second, "t4", batch_records_max=100, wait_s_max=0.1, consumer=slow)
    one.start()
    wait_for(lambda: one.snapshot().received_records == 12)
    two.start()
    wait_for(lambda: second.finished == 6)
    assert first.batches == []
    one.stop(drain="all")
    assert first.finished == 6
    two.stop()
    assert [lab.committed(partition, topic="t4") for partition in range(4)] == [3] * 4


@pytest.mark.slow
def test_revokes_of_busy_members_repeat_nothing(lab: Any, store_app: Any, wait_for: Any, events: Any) -> None:
    """What lies below the highest started record of a running batch is finished within the revoke."""
    first, second = (Store(lambda _batch: time.sleep(0.05)) for _ in range(2))
    for partition in range(4):
        lab.produce(" ".join(f"k{n % 12}" for n in range(300)), topic="t4", partition=partition)
    options = {"assignor": "cooperative-sticky", "workers": 3, "batch_records_max": 9, "wait_s_max": 0.05}
    # The embedded broker drops who is not back within the session time-out less one second.
    options |= {
        "backlog_records_max": 200,
        "consume_records_max": 20,
        "consumer": {"session.timeout.ms": 6_000},
    }
    one, two = store_app(first, "t4", **options), store_app(second, "t4", **options)
    two.add_hook(events)
    one.start()
    wait_for(lambda: first.finished > 50)
    two.start()
    # While it rebalances the embedded broker takes no commit, so not a stop's last one either.
    # Where the machine is slow, the first one is done before.
    wait_for(lambda: len(events.of(CommitAcknowledged)) >= 3 or first.finished + second.finished >= 1_200)
    two.stop()
    wait_for(lambda: first.finished + second.finished >= 1_200, timeout_s=30.0)
    with suppress(
        ehkafka.errors.UnfinishedError
    ):  # its last commit, where the group still rebalances: nobody repeats it
        one.stop()
    handled = Counter(record for store in (first, second) for batch in store.batches for record in batch)
    assert len(handled) == 1_200
    assert set(handled.values()) == {1}


def test_a_batch_that_ends_after_its_epoch_is_dropped_and_reported(
    lab: Any, store_app: Any, wait_for: Any, events: Any
) -> None:
    """Its results, failures included, count for nothing; then the records are handled again."""
    store = Store(lambda batch: batch.fail(batch[-1], ValueError()) if len(store.batches) == 1 else None)
    store.gate.clear()
    lab.produce("a b a")
    app = store_app(store, batch_records_max=3, workers=2, wait_s_max=0.2)
    app.add_hook(events)
    app.start()
    wait_for(lambda: store.running == 1)
    lab.broker.fail_next(ApiKey.HEARTBEAT, 25)
    wait_for(lambda: app.snapshot().received_records == 6)
    time.sleep(0.1)
    assert store.running == 1
    store.gate.set()
    wait_for(lambda: lab.committed() == 3)
    assert app.snapshot().stale_records >= 1
    app.stop()
    assert store.wrong == []
    assert store.running_max == 1
    assert events.of(StaleResult)


# --- all of it ---


def test_ten_thousand_records_with_random_results_keep_every_promise(
    lab: Any, store_app: Any, wait_for: Any
) -> None:
    """10 000 records, 4 partitions, Zipf keys: fail, skip and raise at random; the checker finds nothing."""
    rng = random.Random(11)
    history = CheckingHistory()

    def work(batch: ehkafka.Batch) -> None:
        if rng.random() < 0.02:
            raise ConnectionError("the store is away")
        for record in batch:
            chance = rng.random()
            if chance < 0.01:
                batch.fail(record, ValueError("once more"))
            elif chance < 0.02:
                batch.skip(record, "not wanted")

    store = Store(work)
    for partition in range(4):
        keys = " ".join(f"k{int(rng.paretovariate(0.8)) % 300}" for _ in range(2_500))
        lab.produce(keys, topic="t4", partition=partition)
    app = store_app(
        store,
        "t4",
        batch_records_max=60,
        wait_s_max=0.05,
        workers=4,
        retry=ehkafka.Retry(attempts=1_000, first_s=0.005, max_s=0.02),
        history=history,
    )
    app.start()
    wait_for(lambda: [lab.committed(p, topic="t4") for p in range(4)] == [2_500] * 4, timeout_s=60.0)
    app.stop()
    assert store.running_max <= 4
    assert store.wrong == []
    verdict = history.verdict(complete=True)
    assert verdict.ok, verdict.report()
    assert verdict.finished == 10_000


# --- what is seen of it ---


def test_what_runs_is_seen_while_it_runs(lab: Any, store_app: Any, wait_for: Any, events: Any) -> None:
    """Records in flight, the oldest of them, and the keys of a batch that is stuck."""
    store = Store()
    store.gate.clear()
    lab.produce("a b a")
    app = store_app(store, batch_records_max=3, workers=1, stuck_s=0.3)
    app.add_hook(events)
    app.start()
    wait_for(lambda: store.running == 1)
    (seen,) = [one for one in app.snapshot().partitions if one.partition.topic == "t"]
    assert (seen.in_flight_records, seen.backlog_records, seen.watermark) == (3, 3, 0)
    assert (seen.oldest.offset, seen.oldest.key, seen.oldest.status) == (0, "a", "running")
    wait_for(lambda: events.of(StuckReport))
    assert events.of(StuckReport)[0].running == ("t[0]@0 key a", "t[0]@1 key b")
    store.gate.set()
    wait_for(lambda: lab.committed() == 3)
    app.stop()
    assert app.snapshot().finished_records == 3
