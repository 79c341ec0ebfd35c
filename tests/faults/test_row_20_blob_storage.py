"""Row 20: Blob Storage refuses, throttles, stands still and loses answers, while records keep coming."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.records import TopicPartition
from tests.kit.checker.history_event import CommitAcknowledged
from tests.kit.fault_runs import SCALE, judge
from tests.kit.faults.http_proxy import Fault, HttpProxy
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kit.azurite import Azurite
    from tests.kit.http_server import Request

pytestmark = pytest.mark.broker

# Ten minutes, scaled by a hundred.
PHASE_S = 0.7
FAULTS = {
    "409": Fault(status=409, code="BlobAlreadyExists"),
    "412": Fault(status=412, code="ConditionNotMet"),
    "503": Fault(status=503, code="ServerBusy"),
    "30 s latency": Fault(latency_s=30.0),
    "lost answers": Fault(lose_answer=True),
    "cut": Fault(cut=True),
}
RATE = 1000.0
# Of what was produced, while the fault still lasts.
CONSUMED_MIN = 0.99


def acknowledged(memory: Any) -> dict[int, int]:
    """Return the highest next_offset of each partition that the broker has acknowledged."""
    found: dict[int, int] = {}
    for event in list(memory.events):
        if isinstance(event, CommitAcknowledged):
            for partition, next_offset in event.next_offsets.items():
                number = partition.partition
                found[number] = max(found.get(number, 0), next_offset)
    return found


def test_row_20_blob_storage_s_problems_are_not_consumption_s(
    kafka: Any, stage_on: Callable[..., Any], azurite: Azurite
) -> None:
    """Consumption stays at 99 % at least; no write of the mirror is ever ahead of an acknowledged commit."""
    stage = stage_on(kafka)
    container = f"c{uuid.uuid4().hex[:12]}"
    azurite.create_container(container)
    ahead: list[str] = []
    written: list[Request] = []
    load = stage.load(RATE)
    with HttpProxy(azurite.address) as proxy:
        mirror = ehkafka.BlobMirror.connection_string(
            azurite.connection_string(proxy.address), container, interval_s=0.2, namespace="ns"
        )
        finished: list[int] = []
        app = stage.app(lambda record: finished.append(record.offset()), mirror=mirror, commit_interval_s=0.2)
        memory = stage.memories[-1]

        def watched(fault: Fault | None) -> Callable[[Request], Fault | None]:
            def check(request: Request) -> Fault | None:
                number = request.headers.get("x-ms-meta-sequencenumber")
                if request.method == "PUT" and number is not None:
                    written.append(request)
                    partition = int(request.path.partition("?")[0].rpartition("/")[2])
                    if int(number) + 1 > acknowledged(memory).get(partition, 0):
                        ahead.append(f"{request.path}: {number}")
                    stage.witness.mirrored({TopicPartition(stage.topic, partition): int(number) + 1})
                return fault

            return check

        proxy.fault = watched(None)
        app.start()
        load.start()
        wait_until(lambda: len({request.path for request in written}) == 8, "a first write of each")
        for name, fault in FAULTS.items():
            proxy.heal()
            proxy.fault = watched(fault)
            ends_s = time.monotonic() + PHASE_S * SCALE
            wait_until(lambda ends_s=ends_s: time.monotonic() >= ends_s, "the phase's end", 60.0 * SCALE)
            wanted = int(load.count * CONSUMED_MIN)
            wait_until(lambda wanted=wanted: len(finished) >= wanted, f"consumption during {name}")
        proxy.heal()
        proxy.fault = watched(None)
        load.stop()
        stage.wait_until_committed(load.ends)
        wait_until(lambda: app.snapshot().mirror.error is None, lambda: app.snapshot().mirror)
        wait_until(lambda: app.snapshot().mirror.behind_partitions == 0, lambda: app.snapshot().mirror)
        app.stop()
        last = {int(r.path.partition("?")[0].rpartition("/")[2]): r for r in written}
    judge(stage)
    assert ahead == []
    assert {p: int(r.headers["x-ms-meta-sequencenumber"]) + 1 for p, r in last.items()} == load.ends
    counters = app.snapshot().counters
    # One outage or several, each reported once; its end, too.
    assert counters["MirrorUnavailable"] == counters["MirrorRecovered"] >= 1
    assert counters["PartitionLost"] == 0
