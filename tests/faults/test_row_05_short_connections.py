"""Row 5: no connection lives for longer than a second and a half."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from tests.kit.fault_runs import SCALE, judge
from tests.kit.faults.network import Network
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.broker

LIFE_S = (0.5, 1.5)
RATE = 500.0
DURATION_S = 4.0
PARTITIONS = 4


def test_row_05_connections_that_live_a_second_cost_no_membership(
    stage_on: Callable[..., Any], far_kafka: tuple[Any, Any]
) -> None:
    """All is handled, and no partition is lost: librdkafka connects again in time for each heartbeat."""
    broker, proxy = far_kafka
    stage = stage_on(broker, PARTITIONS)
    # librdkafka waits longer from failure to failure, up to 10 s; and a session lasts 3 s here.
    quick = {"reconnect.backoff.max.ms": 100}
    app = stage.app(endpoint=ehkafka.Endpoint.kafka(proxy.address), consumer=quick, commit_interval_s=0.2)
    app.start()
    wait_until(lambda: len(app.snapshot().partitions) == PARTITIONS, "an assignment")
    proxy.network = Network(life_s=LIFE_S)
    load = stage.load(RATE)
    load.start()
    time.sleep(DURATION_S * SCALE)
    load.stop()
    stage.wait_until_committed(load.ends)
    proxy.heal()
    app.stop()
    judge(stage)
    assert app.snapshot().counters["PartitionLost"] == 0
    assert app.snapshot().counters["PartitionAssigned"] == PARTITIONS
