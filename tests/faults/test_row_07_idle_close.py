"""Row 7: a network that closes connections on which nothing moves, as Azure does after 240 s."""

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

    from ehkafka.testing.kafka.broker import KafkaBroker
    from tests.kit.faults.kafka_proxy import KafkaProxy

pytestmark = pytest.mark.broker

# Twenty in the long run. Each costs librdkafka 0.6 s until it has looked up the leaders and fetches again.
BURSTS = 12
BURST_RECORDS = 100
# 240 s, scaled by 1600. Fetches wait longer for records than that and heartbeats come less often, so that
# every connection of the member falls idle between two bursts.
IDLE_CLOSE_S = 0.15
SILENT = {
    "fetch.wait.max.ms": 5_000,
    "heartbeat.interval.ms": 1_000,
    "session.timeout.ms": 6_000,
    # librdkafka forgets failed attempts after this time (10 s), long before a connection of 240 s is closed.
    "reconnect.backoff.max.ms": 100,
}
FIRST_RECORD_S = 2.0


def test_row_07_the_first_record_after_an_idle_close_comes_at_once(
    stage_on: Callable[..., Any], far_kafka: tuple[KafkaBroker, KafkaProxy]
) -> None:
    """Again and again: connections are closed for being idle, then a burst comes; nothing is lost or late."""
    broker, proxy = far_kafka
    stage = stage_on(broker, 4)
    load = stage.load()
    first_s: list[float] = []
    started: list[float] = []
    app = stage.app(
        lambda _record: started.append(time.monotonic()),
        endpoint=ehkafka.Endpoint.kafka(proxy.address),
        consumer=SILENT,
        commit_interval_s=0.1,
    )
    app.start()
    wait_until(lambda: len(app.snapshot().partitions) == 4, "an assignment")
    for _ in range(BURSTS * SCALE):
        proxy.network = Network(idle_close_s=IDLE_CLOSE_S)
        closed = proxy.closed_idle + proxy.open_connections
        wait_until(lambda closed=closed: proxy.closed_idle >= closed, "idle closes of all that is open")
        # What connects again now would live for another 240 s: much longer than any burst.
        proxy.heal()
        began_s, seen = time.monotonic(), len(started)
        load.produce(BURST_RECORDS)
        wait_until(lambda seen=seen: len(started) >= seen + BURST_RECORDS, "the burst")
        first_s.append(started[seen] - began_s)
    stage.wait_until_committed(load.ends)
    app.stop()
    judge(stage, first_s)
    assert max(first_s) <= FIRST_RECORD_S, first_s
    assert app.snapshot().counters["PartitionLost"] == 0
    assert app.snapshot().counters["PartitionAssigned"] == 4
