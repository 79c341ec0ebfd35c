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


def test_the_backlog_stays_within_its_byte_limit(lab: Any) -> None:
    """Records of 20 kB and a limit of 200 kB: never more bytes than that, and all handled."""
    recorder = lab.recorder(lambda _record: time.sleep(0.004))
    for partition in range(4):
        lab.produce("a b c d e f g h " * 5, topic="t4", partition=partition, value=b"x" * 20_000)
    app = lab.start(recorder, "t4", workers=4, backlog_bytes_max=200_000)
    sampler = Sampler(app)
    wait_until(lambda: recorder.count == 160, timeout_s=30.0)
    sampler.stop()
    app.stop()
    assert 60_000 <= sampler.bytes_max <= 200_000


def test_a_record_larger_than_the_byte_limit_still_gets_through_alone(lab: Any, recorder: Any) -> None:
    """A limit of 1000 bytes and records of 5000: one after another, none stuck."""
    lab.produce("a b c d", value=b"x" * 5_000)
    app = lab.start(recorder, workers=4, backlog_bytes_max=1_000)
    sampler = Sampler(app)
    wait_until(lambda: recorder.count == 4)
    sampler.stop()
    app.stop()
    # One record: its value and its key.
    assert sampler.bytes_max <= 5_001


def test_only_the_partition_over_its_share_is_paused(lab: Any, events: Any) -> None:
    """Partition 0 is blocked and full; the others are never paused and go on."""
    recorder = lab.recorder()
    recorder.block(lambda record: record.partition() == 0)
    lab.produce("a " * 400, topic="t4", partition=0)
    app = lab.start(recorder, "t4", workers=8, backlog_records_max=400, consume_records_max=25)
    # Nothing is paused for partitions that have no records.
    wait_until(lambda: sum(one.backlog_records for one in app.snapshot().partitions) >= 200)
    for _ in range(3):
        before = recorder.count
        for partition in (1, 2, 3):
            lab.produce("a b c d e f g h i j", topic="t4", partition=partition)
        wait_until(lambda before=before: recorder.count == before + 30)
    assert {event.partition.partition for event in events.of(PartitionPaused)} == {0}
    snapshot = app.snapshot().partitions[0]
    assert snapshot.paused
    # Half of the backlog, and what came until it was seen to be stuck.
    assert 200 <= snapshot.backlog_records <= 200 + 4 * 25
    must_stay(lambda: app.snapshot().partitions[0].received_records == snapshot.received_records)
    recorder.open_all()
    wait_until(lambda: recorder.count == 490)


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


def test_nothing_is_paused_while_handlers_have_enough_to_do(lab: Any, events: Any) -> None:
    """The broker is far quicker than the handlers: records are left with the client, which keeps them."""
    recorder = lab.recorder(lambda _record: time.sleep(0.002))
    for partition in range(4):
        lab.produce(" ".join(f"k{n % 50}" for n in range(300)), topic="t4", partition=partition)
    app = lab.start(recorder, "t4", workers=4, backlog_records_max=500, consume_records_max=20)
    wait_until(lambda: recorder.count == 1_200, timeout_s=30.0)
    app.stop()
    assert not events.of(PartitionPaused)


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


def test_a_full_backlog_goes_on_beside_a_partition_that_never_moves(lab: Any) -> None:
    """All were blocked when it became full; partition 0, with more than half of it, stays so."""
    recorder = lab.recorder()
    recorder.block(lambda record: record.partition() == 0)
    others = recorder.block(lambda record: record.partition() > 0)
    large = b"x" * 470_000
    lab.produce("a " * 10, topic="t4", partition=0, value=large)
    app = lab.start(recorder, "t4", workers=8, backlog_bytes_max=8_000_000)
    wait_until(lambda: sum(one.backlog_bytes for one in app.snapshot().partitions) > 4_000_000)
    for partition in (1, 2, 3):
        lab.produce("a " * 10, topic="t4", partition=partition, value=large)
    wait_until(lambda: all(one.paused for one in app.snapshot().partitions), timeout_s=20.0)
    others.set()
    wait_until(lambda: recorder.count == 30)
    assert app.snapshot().partitions[0].paused
    recorder.open_all()
    wait_until(lambda: recorder.count == 40)


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
