"""Row 8: round trips of up to 5 s, 100 kB/s, and bytes that come a few at a time."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.testing import ApiKey
from tests.kit.fault_runs import SCALE, judge
from tests.kit.faults.network import Network
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.testing.kafka.broker import KafkaBroker
    from tests.kit.faults.kafka_proxy import KafkaProxy

pytestmark = pytest.mark.broker

RECORDS_PER_S = 500.0
RECORDS = 2_000
# A round trip of 0 to 5 s, scaled by ten: two directions of up to 0.25 s each.
BAD = Network(latency_s=(0.0, 0.25), bytes_per_s=100_000, slice_bytes=(1, 16))
# 30 s and 3 s, scaled by ten.
SESSION = {"session.timeout.ms": 3_000, "heartbeat.interval.ms": 300}


def test_row_08_a_slow_and_torn_network_costs_no_heartbeat(
    stage_on: Callable[..., Any], far_kafka: tuple[KafkaBroker, KafkaProxy]
) -> None:
    """The member joins, consumes and commits through it, and is never thrown out; nothing is lost."""
    broker, proxy = far_kafka
    proxy.network = BAD
    stage = stage_on(broker, 8)
    load = stage.load(RECORDS_PER_S)
    app = stage.app(endpoint=ehkafka.Endpoint.kafka(proxy.address), consumer=SESSION, commit_interval_s=0.1)
    app.start()
    wait_until(lambda: len(app.snapshot().partitions) == 8, "an assignment")
    load.start()
    wait_until(lambda: load.count >= RECORDS * SCALE, "the load", timeout_s=30.0 * SCALE)
    load.stop()
    stage.wait_until_worked_off(load)
    stage.wait_until_committed(load.ends)
    heartbeats = [beat.sent_at_s for beat in proxy.seen(ApiKey.HEARTBEAT)]
    app.stop()
    judge(stage)
    assert app.snapshot().counters["PartitionLost"] == 0
    assert app.snapshot().counters["PartitionAssigned"] == 8
    # The broker got one well within every session.
    assert len(heartbeats) >= 5
    assert (
        max(later - before for before, later in pairwise(heartbeats)) < SESSION["session.timeout.ms"] / 1000
    )
