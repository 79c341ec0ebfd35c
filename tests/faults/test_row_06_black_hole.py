"""Row 6: for longer than its session nothing reaches a member, and nothing says so."""

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

# Ten times 10 s with a session of 6 s, scaled by four; how quickly it goes on is not scaled.
ROUNDS = 1
HOLE_S = 2.5
SESSION = {"session.timeout.ms": 1_500, "heartbeat.interval.ms": 150, "reconnect.backoff.max.ms": 500}
PARTITIONS = 4
RATE = 300.0
RECOVERY_S_MAX = 5.0


def test_row_06_a_member_in_a_black_hole_is_replaced_and_comes_back(
    stage_on: Callable[..., Any], far_kafka: tuple[Any, Any]
) -> None:
    """Another member takes over; nothing old is committed; the lost one has partitions again within 5 s."""
    broker, proxy = far_kafka
    stage = stage_on(broker, PARTITIONS)
    far = stage.app(endpoint=ehkafka.Endpoint.kafka(proxy.address), consumer=SESSION, commit_interval_s=0.2)
    near = stage.app(consumer=SESSION, commit_interval_s=0.2)
    load = stage.load(RATE)
    far.start()
    near.start()
    load.start()
    recovery_s: list[float] = []
    for _ in range(ROUNDS * SCALE):
        wait_until(lambda: far.snapshot().partitions and near.snapshot().partitions, "both own some")
        lost = far.snapshot().counters["PartitionLost"]
        proxy.network = Network(black_hole=True)
        time.sleep(HOLE_S)
        wait_until(lambda: len(near.snapshot().partitions) == PARTITIONS, "a take-over")
        proxy.heal()
        began_s = time.monotonic()
        wait_until(lambda lost=lost: far.snapshot().counters["PartitionLost"] > lost, "it hears of its loss")
        wait_until(lambda: far.snapshot().partitions, "it owns some again")
        recovery_s.append(time.monotonic() - began_s)
    load.stop()
    stage.wait_until_committed(load.ends)
    stage.stop_apps()
    # What it had when nothing reached it any more it handled, and the other member did so again.
    judge(stage, recovery_s, thawed=True)
    assert max(recovery_s) <= RECOVERY_S_MAX, recovery_s
