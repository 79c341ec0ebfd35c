"""Order and concurrency: one key in order, different keys side by side, within the limits given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from tests.kit.waiting import must_stay, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

Wait = "Callable[..., Any]"


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


@pytest.mark.parametrize(
    "order_by",
    [
        ehkafka.by_key,
        lambda record: bytes(bytearray(record.key())),
        lambda record: ("customer", record.key().decode()),
        lambda record: float(len(record.key())),
    ],
    ids=["by_key", "copied bytes", "tuple", "float"],
)
def test_equal_keys_in_distinct_objects_share_a_lane(lab: Any, order_by: Callable[[Any], Any]) -> None:
    """Equality decides, not identity: the second of two equal keys waits for the first."""
    recorder = lab.recorder()
    gate = recorder.block()
    lab.produce("one one one")
    app = lab.start(recorder, workers=8, order_by=order_by)
    wait_until(lambda: app.snapshot().received_records == 3)
    wait_until(lambda: recorder.running["all"] == 1)
    must_stay(lambda: recorder.running["all"] == 1)
    gate.set()
    wait_until(lambda: recorder.count == 3)
    assert recorder.offsets() == [0, 1, 2]
    assert recorder.running_max == 1


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


def test_a_record_whose_order_function_raises_takes_the_failure_path(lab: Any, recorder: Any) -> None:
    """Under Hold() the record without key is held and named; the others run; the poll loop lives."""

    def order_by(record: Any) -> Any:
        if record.offset() == 2:
            raise KeyError("no customer in it")
        return record.key()

    lab.produce("a b c d")
    app = lab.start(recorder, order_by=order_by, on_failure=ehkafka.Hold())
    wait_until(lambda: recorder.count == 3)
    wait_until(lambda: not app.health())
    assert sorted(recorder.offsets()) == [0, 1, 3]
    (reason,) = app.health().reasons
    assert "t[0]@2" in reason
    assert "no customer in it" in reason
    wait_until(lambda: lab.committed() == 2)
    lab.produce("e")
    wait_until(lambda: recorder.count == 4)
    app.stop()
    assert lab.committed() == 2
