"""Back-pressure: the backlog stays within its limits, and the group never loses a busy member."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

import ehkafka
from ehkafka.events import PartitionAssigned, PartitionPaused, PartitionResumed
from ehkafka.testing import ApiKey
from tests.kit.waiting import must_stay, wait_until


class Sampler:
    """Takes snapshots on a thread until stopped, and keeps the highest backlog seen."""

    def __init__(self, app: ehkafka.App) -> None:
        self.records_max = self.bytes_max = self.samples = 0
        self._app = app
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(0.002):
            partitions = self._app.snapshot().partitions
            self.samples += 1
            self.records_max = max(self.records_max, sum(p.backlog_records for p in partitions))
            self.bytes_max = max(self.bytes_max, sum(p.backlog_bytes for p in partitions))

    def stop(self) -> None:
        """End the thread."""
        self._ended.set()
        self._thread.join()


def test_the_backlog_stays_within_its_record_limit_while_polling_goes_on(lab: Any, events: Any) -> None:
    """1200 records, slow handlers, a limit of 100: never more in the backlog, no eviction."""
    recorder = lab.recorder(lambda _record: time.sleep(0.002))
    for partition in range(4):
        lab.produce(" ".join(f"k{n % 50}" for n in range(300)), topic="t4", partition=partition)
    app = lab.start(
        recorder,
        "t4",
        workers=8,
        backlog_records_max=100,
        consume_records_max=20,
        consumer={"max.poll.interval.ms": 2_000},
    )
    sampler = Sampler(app)
    wait_until(lambda: recorder.count == 1200, timeout_s=30.0)
    sampler.stop()
    app.stop()
    assert sampler.samples > 50
    assert 50 <= sampler.records_max <= 100
    assert len(events.of(PartitionAssigned)) == 4
    assert len(recorder.started) == 1200


def test_pausing_and_resuming_loses_and_repeats_nothing(lab: Any, events: Any) -> None:
    """Two partitions are paused for each other and resumed many times: every offset once, in order."""
    recorder = lab.recorder(lambda _record: time.sleep(0.005))
    for partition in (1, 2):
        lab.produce("a " * 1_000, topic="t4", partition=partition)
    app = lab.start(recorder, "t4", workers=6, backlog_records_max=500, consume_records_max=50)
    wait_until(lambda: recorder.count == 2_000, timeout_s=40.0)
    app.stop()
    assert len(events.of(PartitionPaused)) >= 3
    assert len(events.of(PartitionResumed)) >= 3
    for partition in (1, 2):
        assert recorder.offsets(partition, "t4") == list(range(1_000))


def test_a_paused_partition_that_comes_back_is_not_paused_for_ever(lab: Any, events: Any) -> None:
    """Paused, then lost and assigned again: it starts unpaused at the committed offset."""
    recorder = lab.recorder()
    recorder.block(lambda record: record.offset() == 3 and len(recorder.offsets()) < 10)
    lab.produce("a " * 200)
    app = lab.start(recorder, workers=2, backlog_records_max=40, consume_records_max=20)
    wait_until(lambda: events.of(PartitionPaused))
    wait_until(lambda: lab.committed() == 3)
    lab.broker.fail_next(ApiKey.HEARTBEAT, 25)
    wait_until(lambda: len(events.of(PartitionAssigned)) == 2)
    assert events.of(PartitionAssigned)[1].position == "3"
    recorder.open_all()
    wait_until(lambda: lab.committed() == 200)
    app.stop()
    assert recorder.offsets() == [0, 1, 2, 3, *range(3, 200)]


def test_handlers_far_longer_than_the_poll_interval_cause_no_rebalance(lab: Any, events: Any) -> None:
    """Ten handlers take three times max.poll.interval.ms: the member stays, everything is committed."""
    recorder = lab.recorder()
    gate = recorder.block()
    lab.produce(" ".join(f"k{n}" for n in range(10)))
    lab.start(recorder, workers=10, consumer={"max.poll.interval.ms": 1_600})
    wait_until(lambda: recorder.running["all"] == 10)
    must_stay(lambda: len(events.of(PartitionAssigned)) == 1, for_s=4.8)
    gate.set()
    wait_until(lambda: lab.committed() == 10)
    assert len(events.of(PartitionAssigned)) == 1
    assert len(recorder.started) == 10


# --- bytes ---


LARGE = 50_000
RECORDS = 100
LIMIT = 2_000_000
LIMITS = {"backlog_bytes_max": LIMIT, "parked_bytes_max": LIMIT}


def _produce(lab: Any, where: str) -> None:
    records = [(b"%03d" % n + b"k" * (LARGE if where == "key" else 0), b"v") for n in range(RECORDS)]
    headers = [("large", b"h" * LARGE)] if where == "headers" else None
    lab.broker.produce("t", records, partition=0, headers=headers)


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("where", ["key", "headers"])
def test_the_backlog_is_bounded_by_all_bytes(lab: Any, recorder: Any, where: str, *, raw: bool) -> None:
    """One record blocks; those behind it fill the backlog, and the broker keeps the rest."""
    _produce(lab, where)
    gate = recorder.block()
    app = lab.start(recorder, raw=raw, **LIMITS)
    wait_until(lambda: _bytes(app)[0] > LIMIT // 2)
    must_stay(lambda: app.snapshot().received_records <= LIMIT // LARGE + 2)
    assert _bytes(app)[0] >= (app.snapshot().received_records - 1) * LARGE
    gate.set()
    wait_until(lambda: lab.committed() == RECORDS)
    assert _bytes(app) == (0, 0)


@pytest.mark.parametrize("where", ["key", "headers"])
def test_the_parked_budget_is_bounded_by_all_bytes(lab: Any, where: str) -> None:
    """Records that wait behind failed ones are counted with their keys and headers."""
    _produce(lab, where)

    def fail(_record: Any) -> None:
        raise ValueError("no")

    app = lab.start(fail, on_failure=ehkafka.Hold(), **LIMITS)
    wait_until(lambda: _bytes(app)[1] > LIMIT // 2)
    must_stay(lambda: app.snapshot().received_records <= 2 * LIMIT // LARGE + 2)


def _bytes(app: Any) -> tuple[int, int]:
    partitions = app.snapshot().partitions
    return sum(one.backlog_bytes for one in partitions), sum(one.parked_bytes for one in partitions)
