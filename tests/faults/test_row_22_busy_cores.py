"""Row 22: other programs keep every core of the machine busy."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.busy_loops import busy_loops
from tests.kit.checker.history_event import Assigned
from tests.kit.fault_runs import SCALE, judge
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.broker

DURATION_S = 3.0
RATE = 500.0
PARTITIONS = 8


def test_row_22_busy_cores_cost_no_membership(stage_on: Callable[..., Any], kafka: Any) -> None:
    """With two programs a core that only burn, two members keep what they have, and all is handled."""
    stage = stage_on(kafka, PARTITIONS)
    members = [stage.member(name, "--handler-ms", "0-5") for name in ("first", "second")]
    load = stage.load(RATE)
    load.start()
    for member in members:
        member.start()
    wait_until(lambda: all(len(one.assigned()) == PARTITIONS // 2 for one in members), "an even share")
    begun, duration_s = [member.count(Assigned) for member in members], DURATION_S * SCALE
    with busy_loops(2 * (os.cpu_count() or 1), 10 * duration_s):
        time.sleep(duration_s)
    assert [member.count(Assigned) for member in members] == begun, stage.logs()
    load.stop()
    stage.wait_until_committed(load.ends)
    stage.stop_members(timeout_s=30.0)
    judge(stage)
