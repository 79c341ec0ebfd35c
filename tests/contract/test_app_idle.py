"""An app that can do nothing but wait costs next to nothing, whatever it waits for."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from tests.contract.kinds import Stage

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
