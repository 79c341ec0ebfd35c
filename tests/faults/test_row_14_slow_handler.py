"""Row 14: handlers that run three times as long as `max.poll.interval.ms`."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

RECORDS = 2_000
PARTITIONS = 8
WORKERS = 16
# 300 s, scaled by 200. Sessions must be shorter than it.
POLL_INTERVAL_S = 1.5
GROUP = {"max.poll.interval.ms": int(POLL_INTERVAL_S * 1000), "session.timeout.ms": 1_400}
HANDLER_S = 3 * POLL_INTERVAL_S


def test_row_14_handlers_longer_than_the_poll_interval_cost_no_rebalance(
    embedded_stage: Callable[..., Any],
    eventually: Callable[..., None],
    judged: Callable[..., None],
    scale: int,
) -> None:
    """Every worker is busy for three intervals; the member stays, the rest is handled once they are done."""
    stage = embedded_stage(PARTITIONS)
    slow = threading.Semaphore(WORKERS)

    def handle(_record: Any) -> None:
        if slow.acquire(blocking=False):
            time.sleep(HANDLER_S * scale)

    load = stage.load()
    load.produce(RECORDS * scale)
    app = stage.app(handle, workers=WORKERS, consumer=GROUP)
    app.start()
    eventually(lambda: slow._value == 0, "all workers busy")
    stage.wait_until_committed(load.ends, timeout_s=30.0 + HANDLER_S * scale)
    counters = app.snapshot().counters
    assert counters["PartitionAssigned"] == PARTITIONS
    assert counters["PartitionLost"] == counters["PartitionRevoked"] == 0
    app.stop()
    judged(stage)
