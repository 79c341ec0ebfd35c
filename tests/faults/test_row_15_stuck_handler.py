"""Row 15: handlers that never return."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from tests.kit.checker.checking_history import CheckingHistory
from tests.kit.fault_runs import SCALE, judge
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

RECORDS = 2_000
PARTITIONS = 8
WORKERS = 16
# What is unfinished for so long is reported: 10 s and 5 s, scaled by five.
STUCK_S = 2.0
VISIBLE_S = STUCK_S + 1.0
WORK_S = 0.01
OTHERS_THROUGHPUT_MIN = 0.9


def test_row_15_one_stuck_worker_is_named_and_takes_one_workers_share(
    embedded_stage: Callable[..., Any],
) -> None:
    """Compared with a twin without a stuck record, on one log at one time, the others keep their pace."""
    stage = embedded_stage(PARTITIONS)
    go, freed = threading.Event(), threading.Event()
    began_s: list[float] = []

    def work(_record: Any) -> None:
        assert go.wait(60.0)
        time.sleep(WORK_S)

    def stuck_at_first(record: Any) -> None:
        if record.key() == b"stuck" and not freed.is_set():
            began_s.append(time.monotonic())
            freed.wait()
            return
        work(record)

    load = stage.load()
    load.put(b"stuck")
    for number in range(RECORDS * SCALE):
        load.put(b"one-%d" % number)
    load.produce(0)
    app = stage.app(stuck_at_first, workers=WORKERS, stuck_s=STUCK_S)
    twin = stage.app(work, workers=WORKERS, group="twin", history=CheckingHistory())
    app.start()
    twin.start()
    everything = RECORDS * SCALE + 1
    for one in (app, twin):
        # More than run: the others stand behind them.
        wait_until(lambda one=one: one.snapshot().received_records >= 2 * WORKERS, "the records")
    go.set()
    wait_until(lambda: began_s, "the stuck record")
    wait_until(lambda: twin.snapshot().finished_records >= everything - WORKERS, "the twin's end")
    share = app.snapshot().finished_records / twin.snapshot().finished_records
    wait_until(lambda: not app.health(), "red health", timeout_s=60.0)
    red_s = time.monotonic() - began_s[0]
    wait_until(lambda: app.snapshot().finished_records == everything - 1, "the others", timeout_s=60.0)
    reasons = app.health().reasons
    with pytest.raises(ehkafka.errors.UnfinishedError, match="stuck"):
        app.stop(drain=False, timeout_s=0.5)
    freed.set()
    twin.stop()
    again = stage.app(stuck_at_first, workers=WORKERS)
    again.start()
    stage.wait_until_committed(load.ends)
    again.stop()
    judge(stage)
    assert share >= OTHERS_THROUGHPUT_MIN
    assert len(reasons) == 1
    assert "key stuck has been unfinished" in reasons[0]
    assert red_s <= VISIBLE_S
