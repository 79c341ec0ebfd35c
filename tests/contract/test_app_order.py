"""Order and concurrency: one key in order, different keys side by side, within the limits given."""

from __future__ import annotations

from typing import Any

import pytest

import ehkafka
from tests.kit.waiting import must_stay, wait_until


def in_order(offsets: list[int]) -> bool:
    """Whether offsets ascend."""
    return offsets == sorted(offsets)


@pytest.mark.parametrize(
    ("null_key", "scope", "side_by_side"),
    [
        ("spread", "partition", 8),
        ("spread", "handler", 8),
        ("partition", "partition", 2),
        ("partition", "handler", 2),
    ],
)
def test_null_keys_follow_their_policy(lab: Any, null_key: str, scope: str, side_by_side: int) -> None:
    """4 records without key in each of 2 partitions run as wide as the policy says; none is lost."""
    recorder = lab.recorder()
    gate = recorder.block()
    for partition in (0, 1):
        lab.produce("- - - -", topic="t4", partition=partition)
    app = lab.start(recorder, "t4", workers=16, null_key=null_key, scope=scope)
    wait_until(lambda: recorder.running["all"] == side_by_side)
    wait_until(lambda: app.snapshot().received_records == 8)
    must_stay(lambda: recorder.running["all"] == side_by_side)
    gate.set()
    wait_until(lambda: recorder.count == 8)
    assert recorder.running_max == side_by_side
    if null_key != "spread":
        assert recorder.running_max_of["t4", 0] == recorder.running_max_of["t4", 1] == 1
        assert all(in_order(recorder.offsets(partition, "t4")) for partition in (0, 1))
    app.stop()
    assert [lab.committed(p, topic="t4") for p in (0, 1)] == [4, 4]


def test_the_same_key_in_two_partitions_or_topics_is_independent(lab: Any) -> None:
    """By default key K of two partitions and of another topic runs three times at once."""
    recorder = lab.recorder()
    gate = recorder.block()
    lab.produce("K K", topic="t4", partition=0)
    lab.produce("K K", topic="t4", partition=1)
    lab.produce("K K", topic="u")
    lab.start(recorder, "t4", "u", workers=8)
    wait_until(lambda: recorder.running["all"] == 3)
    gate.set()
    wait_until(lambda: recorder.count == 6)
    assert recorder.running_max == 3


def test_handler_scope_gives_a_key_one_lane_and_keeps_each_commit_right(lab: Any) -> None:
    """K runs once over partitions and topics; each partition's commit stops at its own unfinished K."""
    lab.checker_options = {"lane_scope": lambda _partition: "one handler"}
    recorder = lab.recorder()
    gate = recorder.block(b"K")
    lab.produce("x K y", topic="t4", partition=0)
    lab.produce("x y K z", topic="t4", partition=1)
    lab.produce("K x", topic="u")
    app = lab.start(recorder, "t4", "u", workers=8, scope="handler")
    wait_until(lambda: recorder.count == 6)
    must_stay(lambda: recorder.keys.count(b"K") == 1)
    wait_until(lambda: lab.committed(0, topic="t4") == 1)
    wait_until(lambda: lab.committed(1, topic="t4") == 2)
    assert lab.committed(0, topic="u") in (None, 0)
    gate.set()
    wait_until(lambda: recorder.count == 9)
    app.stop()
    assert recorder.running_max_of["key", b"K"] == 1
    assert [lab.committed(0, topic="t4"), lab.committed(1, topic="t4")] == [3, 4]
    assert lab.committed(0, topic="u") == 2


def test_by_partition_runs_one_record_per_partition(lab: Any) -> None:
    """Four partitions with many keys each: one handler in each, all four at once."""
    recorder = lab.recorder()
    gate = recorder.block()
    for partition in range(4):
        lab.produce("a b c d e f g h", topic="t4", partition=partition)
    lab.start(recorder, "t4", workers=16, order_by=ehkafka.by_partition)
    wait_until(lambda: recorder.running["all"] == 4)
    must_stay(lambda: recorder.running["all"] == 4)
    gate.set()
    wait_until(lambda: recorder.count == 32)
    assert [recorder.running_max_of["t4", p] for p in range(4)] == [1, 1, 1, 1]
    assert all(recorder.offsets(p, "t4") == list(range(8)) for p in range(4))
