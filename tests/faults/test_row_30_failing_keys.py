"""Row 30: one key in twenty fails for ever and is tried again for ever."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from ehkafka.recovery.retry import Retry
from tests.kit.checker.checking_history import CheckingHistory
from tests.kit.fault_runs import SCALE, judge
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

RECORDS = 3_000
KEYS = 1_000
FAILING_EVERY = 20
FAILING = {b"key-%d" % number for number in range(0, KEYS, FAILING_EVERY)}
PARTITIONS = 4
# One second, halved. Shorter waits make attempts so many that these alone slow the healthy keys down.
FOR_EVER = Retry(attempts=None, first_s=0.5, max_s=0.5)
WORK_S = 0.005
HEALTHY_MIN = 0.98


class Handler:
    """Fails for some keys until it is fixed, or for none; counts the healthy ones."""

    def __init__(self, *, fails: bool) -> None:
        self.fails = fails
        self.fixed = threading.Event()
        self.go = threading.Event()
        self._lock = threading.Lock()
        self.healthy = 0

    def __call__(self, record: Any) -> None:
        """Handle a record."""
        assert self.go.wait(60.0)
        is_failing = record.key() in FAILING
        if is_failing and self.fails and not self.fixed.is_set():
            raise ValueError("this key fails for ever")
        time.sleep(WORK_S)
        if not is_failing:
            with self._lock:
                self.healthy += 1


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
    handler, calm = Handler(fails=True), Handler(fails=False)
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
