"""Batch handlers: how batches fill, whose records they hold, and what a stop or a revoke does.

What they share with other kinds of workers is in `test_kinds`.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import Counter
from contextlib import suppress
from itertools import chain
from typing import Any

import pytest

import ehkafka
from ehkafka.events import CommitAcknowledged, StuckReport
from tests.contract.conftest import ends_with
from tests.kit.checker.checking_history import CheckingHistory
from tests.kit.unstolen import unstolen_s
from tests.kit.waiting import wait_until

# --- filling ---


def test_a_batch_goes_when_it_is_full_and_the_rest_when_its_time_is_up(lab: Any) -> None:
    """25 records, ten a batch: two go at once, five after wait_s_max; all are committed."""
    store = lab.store()
    app = lab.start(store, batch_records_max=10, wait_s_max=0.4, workers=1)
    wait_until(lambda: app.snapshot().partitions)
    lab.produce("a b c d e " * 5)
    wait_until(lambda: store.finished == 20)
    began_s = time.monotonic()
    wait_until(lambda: store.finished == 25)
    assert time.monotonic() - began_s > 0.1
    app.stop()
    assert store.sizes == [10, 10, 5]
    assert lab.committed() == 25


def test_max_bytes_bounds_a_batch(lab: Any) -> None:
    """Values of 40 bytes and room for 100: two a batch; a larger one goes alone."""
    store = lab.store()
    lab.produce("a b c d", value=b"x" * 40)
    lab.produce("e", value=b"x" * 400)
    lab.start(store, batch_bytes_max=100, wait_s_max=0.2, workers=1)
    wait_until(lambda: store.finished == 5)
    assert store.batches == [[(0, 0), (0, 1)], [(0, 2), (0, 3)], [(0, 4)]]


def test_by_partition_gives_a_partition_whole_and_in_order(lab: Any) -> None:
    """No two batches have records of one partition, and each goes on where the last one ended."""
    store = lab.store(lambda _batch: time.sleep(0.005))
    store.gate.clear()
    app = lab.start(store, "t4", order_by=ehkafka.by_partition, batch_records_max=16, workers=4)
    # The second half comes when it is known that calls take long: until then one worker has all.
    for records in (80, 160):
        for partition in range(4):
            lab.produce("a b c d " * 10, topic="t4", partition=partition)
        wait_until(lambda records=records: app.snapshot().received_records >= 1.5 * records)
        wait_until(lambda: store.running >= 1)
        time.sleep(0.1)
    store.gate.set()
    wait_until(lambda: store.finished == 320)
    for partition in range(4):
        assert list(chain.from_iterable(store.offsets(partition))) == list(range(80))


# --- stop and revoke ---


def test_a_stop_hands_the_waiting_batch_over_at_once(lab: Any) -> None:
    """An hour to wait is not waited; all of it ends and is committed."""
    store = lab.store()
    lab.produce("a b c a")
    app = lab.start(store, batch_records_max=100, wait_s_max=3600.0)
    wait_until(lambda: app.snapshot().received_records == 4)
    time.sleep(0.1)
    assert store.batches == []
    began_s = unstolen_s()
    app.stop(drain="all")
    assert unstolen_s() - began_s < 3.0
    assert lab.committed() == 4
    assert store.sizes == [4]


@pytest.mark.slow
def test_revokes_of_busy_members_repeat_nothing(lab: Any, events: Any) -> None:
    """What lies below the highest started record of a running batch is finished within the revoke."""
    first, second = (lab.store(lambda _batch: time.sleep(0.05)) for _ in range(2))
    for partition in range(4):
        lab.produce(" ".join(f"k{n % 12}" for n in range(300)), topic="t4", partition=partition)
    options = {"assignor": "cooperative-sticky", "workers": 3, "batch_records_max": 9, "wait_s_max": 0.05}
    # The embedded broker drops who is not back within the session time-out less one second.
    options |= {
        "backlog_records_max": 200,
        "consume_records_max": 20,
        "consumer": {"session.timeout.ms": 6_000},
    }
    one = lab.start(first, "t4", **options)
    wait_until(lambda: first.finished > 50)
    events.clear()
    two = lab.start(second, "t4", **options)
    # While it rebalances the embedded broker takes no commit, so not a stop's last one either.
    # Where the machine is slow, the first one is done before.
    wait_until(lambda: second.finished > 50 or first.finished + second.finished >= 1_200)
    wait_until(lambda: len(events.of(CommitAcknowledged)) >= 6 or first.finished + second.finished >= 1_200)
    two.stop()
    wait_until(lambda: first.finished + second.finished >= 1_200)
    with suppress(ehkafka.errors.UnfinishedError):  # its last commit, where the group still rebalances
        one.stop()
    handled = Counter(record for store in (first, second) for batch in store.batches for record in batch)
    assert len(handled) == 1_200
    assert set(handled.values()) == {1}


# --- all of it ---


def test_ten_thousand_records_with_random_results_keep_every_promise(lab: Any) -> None:
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

    store = lab.store(work)
    for partition in range(4):
        keys = " ".join(f"k{int(rng.paretovariate(0.8)) % 300}" for _ in range(2_500))
        lab.produce(keys, topic="t4", partition=partition)
    retry = ehkafka.Retry(attempts=1_000, first_s=0.005, max_s=0.02)
    options = {"batch_records_max": 60, "wait_s_max": 0.05, "workers": 4, "retry": retry, "history": history}
    app = lab.start(store, "t4", **options)
    wait_until(lambda: [lab.committed(p, topic="t4") for p in range(4)] == [2_500] * 4, timeout_s=60.0)
    app.stop()
    assert store.running_max <= 4
    assert store.wrong == []
    verdict = history.verdict(complete=True)
    assert verdict.ok, verdict.report()
    assert verdict.finished == 10_000


def test_what_runs_is_seen_while_it_runs(lab: Any, events: Any) -> None:
    """Records in flight, the oldest of them, the keys of a batch that is stuck and outlives a stop."""
    store = lab.store()
    store.gate.clear()
    lab.produce("a b a")
    app = lab.start(store, batch_records_max=3, workers=1, stuck_s=0.3)
    wait_until(lambda: store.running == 1)
    (seen,) = app.snapshot().partitions
    assert (seen.in_flight_records, seen.backlog_records, seen.watermark) == (3, 3, 0)
    assert (seen.oldest.offset, seen.oldest.key, seen.oldest.status) == (0, "a", "running")
    wait_until(lambda: events.of(StuckReport))
    assert events.of(StuckReport)[0].running == ("t[0]@0 key a", "t[0]@1 key b")
    with pytest.raises(ehkafka.errors.UnfinishedError, match=r"t\[0\]@0 key a, t\[0\]@1 key b"):
        app.stop(timeout_s=0.5)
    assert lab.committed() in (None, 0)


# --- async ---


class AsyncStore:
    """An async batch handler that says where it runs and who runs at once."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error
        self.sizes: list[int] = []
        self.running = self.running_max = 0
        self.threads: set[str] = set()

    async def __call__(self, batch: ehkafka.Batch) -> None:
        """Handle a batch; fail its first record once."""
        self.running += 1
        self.running_max = max(self.running, self.running_max)
        self.threads.add(threading.current_thread().name)
        await asyncio.sleep(0.02)
        self.running -= 1
        self.sizes.append(len(batch))
        if self.error is not None:
            raise self.error
        if batch[0].attempt == 1 and len(self.sizes) == 1:
            batch.fail(batch[0], ValueError("once more"))


def test_async_batches_run_side_by_side_on_one_loop(lab: Any) -> None:
    """Three at a time, results as for plain functions."""
    store = AsyncStore()
    lab.produce(" ".join(f"k{n}" for n in range(60)))
    retry = ehkafka.Retry(attempts=2, first_s=0.01)
    lab.start(store, batch_records_max=5, workers=3, wait_s_max=0.05, retry=retry)
    wait_until(lambda: lab.committed() == 60)
    assert store.running_max == 3
    assert sum(store.sizes) >= 61
    assert store.threads == {"ehkafka-AsyncStore-loop"}


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError()])
def test_an_async_batch_that_wants_to_leave_stops_the_app(lab: Any, error: BaseException) -> None:
    """The loop survives it, the app ends visibly and commits nothing of it."""
    lab.produce("a b")
    app = lab.start(AsyncStore(error), batch_records_max=2, on_failure=ehkafka.Skip())
    ends_with(app, ehkafka.errors.HandlerFailedError, type(error).__name__)
    assert lab.committed() in (None, 0)
