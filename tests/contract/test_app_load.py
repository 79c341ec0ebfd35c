"""Load: hot keys, busy keys, and half a million keys that leave nothing behind."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.events import PartitionPaused
from ehkafka.lanes.routing import OWNERS_MIN
from tests.kit.checker.checking_history import CheckingHistory
from tests.kit.checker.history_event import Finished, Started
from tests.kit.inside import inside
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from tests.contract.kinds import Stage

DISTINCT_KEYS = 500_000
# From round 3 on: of Python's objects less than one for each third key, of all memory some bytes for each.
BLOCKS_GROWTH_MAX = 100_000
RSS_GROWTH_MAX_BYTES = 40_000_000


def rss_bytes() -> int:
    """Return this process's resident memory."""
    with open("/proc/self/statm") as statm:  # noqa: PTH123 - a kernel file
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
def test_keys_seen_once_leave_no_state_and_no_memory(lab: Any) -> None:
    """500 000 distinct keys in 8 rounds over 4 partitions: nothing is kept, memory flat after round 3."""
    handled = 0
    lock = threading.Lock()
    lanes_max = 0
    history = CheckingHistory()

    def count(_record: Any) -> None:
        nonlocal handled
        with lock:
            handled += 1

    def check() -> None:
        nonlocal lanes_max
        lanes_max = max(lanes_max, app.snapshot().lanes)
        time.sleep(0.02)

    app = lab.start(count, "t4", workers=8, history=history)
    rss, blocks = list[int](), list[int]()
    per_round = DISTINCT_KEYS // 8
    for number in range(8):
        first = number * per_round
        records = [(b"key-%d" % n, b"x" * 20) for n in range(first, first + per_round)]
        lab.broker.produce("t4", records)
        wait_until(lambda end=first + per_round: handled >= end, timeout_s=60.0, meanwhile=check)
        # What the broker keeps is not the engine's memory.
        for partition in range(4):
            lab.broker.delete_records("t4", partition, app.snapshot().partitions[partition].watermark)
        rss.append(rss_bytes())
        blocks.append(sys.getallocatedblocks())
    wait_until(lambda: app.snapshot().lanes == 0)
    epochs = inside(app).inboxes.router.epochs.values()
    # Owners of keys that are done are purged at the next check, where they are many.
    wait_until(lambda: all(len(epoch.owners) <= 2 * OWNERS_MIN for epoch in epochs))
    assert all(len(epoch.received.batches) < 200 for epoch in epochs)
    app.stop()
    assert handled == DISTINCT_KEYS
    assert lanes_max <= 50_000
    assert blocks[-1] - blocks[2] < BLOCKS_GROWTH_MAX
    assert rss[-1] - rss[2] < RSS_GROWTH_MAX_BYTES
    verdict = history.verdict()
    assert verdict.ok, verdict.report()


def test_a_key_above_its_lanes_means_pauses_its_own_partition_and_is_named(lab: Any, events: Any) -> None:
    """Only its partition is paused, not before the backlog is half full, and the log names the key.

    New records count as stuck until some of them end. On a busy machine, another partition would be paused
    for the 25 records that no worker has taken yet, so each of the others gets ten at a time.
    """
    recorder = lab.recorder(lambda record: time.sleep(0.02) if record.key() == b"hot" else None)
    app = lab.start(recorder, "t4", workers=8, backlog_records_max=400, consume_records_max=20)
    wait_until(lambda: len(app.snapshot().partitions) == 4)
    lab.broker.produce("t4", [(b"hot", b"")] * 400, partition=1)
    for number in range(1, 26):
        for partition in (0, 2, 3):
            lab.broker.produce("t4", [(b"k%d" % n, b"") for n in range(10)], partition=partition)
        wait_until(lambda least=30 * number: sum(place != 1 for _, place, _ in recorder.finished) >= least)
    paused = events.of(PartitionPaused)
    assert {event.partition.partition for event in paused} == {1}
    assert paused[0].largest_key == "hot"
    assert paused[0].backlog_records >= 150
    app.stop(drain=False)


def test_the_history_of_a_run_brackets_each_call(lab: Any) -> None:
    """What its judge believes: a call begins after its `started`, and ends before its end."""
    calls: dict[tuple[int, int], tuple[int, int]] = {}

    def handle(record: Any) -> None:
        began_ns = time.monotonic_ns()
        calls[record.offset(), record.attempt] = began_ns, time.monotonic_ns()
        if record.attempt == 1 and record.offset() % 50 == 7:
            raise ValueError("once")

    app = lab.app(handle, workers=4, retry=ehkafka.Retry(attempts=2, first_s=0.005))
    lab.broker.produce("t", [(b"k%d" % (n % 100), b"") for n in range(3_000)], partition=0)
    app.start()
    wait_until(lambda: lab.committed() == 3_000)
    ends: dict[type, dict[tuple[int, int], int]] = {Started: {}, Finished: {}}
    for event in lab.histories[0].events:
        if isinstance(event, Started | Finished):
            ends[type(event)][event.offset, event.attempt] = event.at_ns
    assert ends[Started].keys() == ends[Finished].keys() == calls.keys()
    assert all(
        ends[Started][call] <= began <= ended <= ends[Finished][call]
        for call, (began, ended) in calls.items()
    )


# --- idle ---


# A loop that goes round without a wait takes a second of CPU time for each second.
WATCHED_S, CPU_S_MAX = 1.0, 0.35
RECORDS = 60


@pytest.mark.parametrize("stage", ["threads", "tasks", "batches", "processes"], indirect=True)
@pytest.mark.parametrize("state", ["parked", "blocked", "more records than workers"])
def test_an_app_that_waits_does_not_spin(stage: Stage, state: str) -> None:
    """Full parked budget, blocked handler, more records than workers: hardly any CPU time."""
    # Half of them fit: the partition is paused unless the test is about free workers alone.
    limit = 10 * RECORDS if state.startswith("more") else RECORDS // 2
    limits: dict[str, Any] = {"backlog_records_max": limit, "consume_records_max": RECORDS // 6}
    limits |= {"parked_records_max": RECORDS // 3, "drain": "running"}
    what = "fail ValueError 99" if state == "parked" else "wait gate"
    stage.produce(*((f"k{n % (1 if state == 'blocked' else 20)}", what) for n in range(RECORDS)))
    app = stage.start(workers=2, retry=ehkafka.Retry(first_s=600.0, max_s=600.0), **limits)
    if limit < RECORDS:
        wait_until(lambda: any(p.paused for p in app.snapshot().partitions))
    else:
        wait_until(lambda: app.snapshot().backlog_records == RECORDS)
    time.sleep(0.5)  # the last records may arrive still
    before_s = time.process_time()
    time.sleep(WATCHED_S)
    assert time.process_time() - before_s < CPU_S_MAX
