"""Row 30: one key in twenty fails for ever and is tried again for ever."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from ehkafka.events import ParkedBudgetFull
from ehkafka.recovery.retry import Retry
from tests.kit.checker.checking_history import CheckingHistory
from tests.kit.fault_runs import SCALE, judge
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    import ehkafka

RECORDS = 3_000
KEYS = 1_000
FAILING_EVERY = 20
FAILING = {b"key-%d" % number for number in range(0, KEYS, FAILING_EVERY)}
PARTITIONS = 4
# One second, scaled by ten.
FOR_EVER = Retry(attempts=None, first_s=0.1, max_s=0.1)
WORK_S = 0.005
HEALTHY_MIN = 0.98


class Handler:
    """Fails for some keys until it is fixed; counts the healthy ones."""

    def __init__(self, failing: set[bytes] = FAILING) -> None:
        self.failing = failing
        self.fixed = threading.Event()
        self.go = threading.Event()
        self._lock = threading.Lock()
        self.healthy = 0

    def __call__(self, record: Any) -> None:
        """Handle a record."""
        assert self.go.wait(60.0)
        is_failing = record.key() in FAILING
        if record.key() in self.failing and not self.fixed.is_set():
            raise ValueError("this key fails for ever")
        time.sleep(WORK_S)
        if not is_failing:
            with self._lock:
                self.healthy += 1


class Noted:
    """A hook that notes when a parked budget was full."""

    def __init__(self) -> None:
        self.full: list[tuple[float, ParkedBudgetFull]] = []

    def on_event(self, event: ehkafka.events.Event) -> None:
        """Keep these events."""
        if isinstance(event, ParkedBudgetFull):
            self.full.append((time.monotonic(), event))


def fill(stage: Any, records: int) -> Any:
    """Produce the records, each key as often as any other; return the load."""
    load = stage.load()
    for number in range(records):
        load.put(b"key-%d" % (number % KEYS))
    load.produce(0)
    return load


def test_row_30_with_a_budget_sized_for_them_failing_keys_cost_the_healthy_nothing(
    embedded_stage: Callable[..., Any],
) -> None:
    """Compared with a twin where nothing fails, on one log at one time, healthy keys keep their pace.

    The budget holds all records of the failing keys, 1/20 of the log; the backlog alone would not. Fixed,
    those end as well.
    """
    stage = embedded_stage(PARTITIONS)
    records = RECORDS * SCALE
    load = fill(stage, records)
    handler, calm = Handler(), Handler(set())
    # A partition's share of the backlog is 40 records; it has 37 of failing keys in the quick run.
    limits = {"parked_records_max": records, "backlog_records_max": 120, "consume_records_max": 20}
    app = stage.app(handler, retry=FOR_EVER, **limits)
    twin = stage.app(calm, retry=FOR_EVER, group="twin", history=CheckingHistory(), **limits)
    app.start()
    twin.start()
    for one in (app, twin):
        wait_until(lambda one=one: len(one.snapshot().partitions) == PARTITIONS, "an assignment")
        wait_until(lambda one=one: one.snapshot().backlog_records >= 20, "the first records")
    handler.go.set()
    calm.go.set()
    healthy = records - records // FAILING_EVERY
    wait_until(lambda: calm.healthy >= healthy, "the twin's healthy records", timeout_s=60.0 * SCALE)
    share = handler.healthy / calm.healthy
    wait_until(lambda: handler.healthy == healthy, "the healthy records")
    assert app.snapshot().counters["ParkedBudgetFull"] == 0
    handler.fixed.set()
    stage.wait_until_committed(load.ends)
    app.stop()
    twin.stop()
    judge(stage)
    assert share >= HEALTHY_MIN


def test_row_30_a_small_budget_is_full_when_the_formula_says_and_pauses_one_partition(
    embedded_stage: Callable[..., Any],
) -> None:
    """A share of S records is full after S / r seconds of a key with r records a second, not before.

    Only its partition pauses; the other keys go on, and after the fix that partition does too.
    """
    stage = embedded_stage(PARTITIONS)
    handler = Handler({b"key-0"})
    handler.go.set()
    share, per_s = 200 * SCALE, 100
    noted = Noted()
    app = stage.app(
        handler, retry=FOR_EVER, parked_records_max=share * PARTITIONS, consume_records_max=10, workers=32
    )
    app.add_hook(noted)
    app.start()
    wait_until(lambda: len(app.snapshot().partitions) == PARTITIONS, "an assignment")
    load = stage.load()
    began_s, sent = time.monotonic(), 0
    # Each failing record brings nine healthy ones along.
    while not noted.full or sent < RECORDS * SCALE // 10:
        while sent < (time.monotonic() - began_s) * per_s:
            for number in range(10):
                load.put(b"key-%d" % (number and sent % 900 + number))
            sent += 1
        load.produce(0)
        assert time.monotonic() - began_s < 60.0 * SCALE
        time.sleep(0.005)
    full_s, full = noted.full[0]
    snapshot = app.snapshot()
    paused = [partition.partition for partition in snapshot.partitions if partition.paused]
    reasons = app.health().reasons
    elsewhere = {p: end for p, end in load.ends.items() if p != full.partition.partition}

    def watermarks() -> dict[int, int | None]:
        return {p.partition.partition: p.watermark for p in app.snapshot().partitions}

    wait_until(lambda: elsewhere.items() <= watermarks().items(), "the other partitions")
    handler.fixed.set()
    stage.wait_until_committed(load.ends)
    assert app.health()
    app.stop()
    judge(stage)
    assert full.largest_key == "key-0"
    assert share <= full.parked_records < share + 20
    assert full_s - began_s >= share / per_s - 0.1
    assert paused == [full.partition]
    assert snapshot.counters["PartitionPaused"] == 1
    assert any("key-0" in reason for reason in reasons)
