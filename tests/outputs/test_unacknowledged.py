"""How what is not acknowledged is counted."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

from ehkafka.lanes.epoch import Epoch
from ehkafka.outputs import unacknowledged
from ehkafka.outputs.output import PARTS, Output
from ehkafka.records import TopicPartition
from tests.kit.simulated.message import SimulatedMessage

if TYPE_CHECKING:
    import pytest


def test_the_bytes_of_what_waits_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large ones at once, small ones by and by; what is taken and what is put back as well."""
    monkeypatch.setattr(unacknowledged, "COUNT_EACH", 3)
    outputs = unacknowledged.Unacknowledged()
    outputs.count_at = 3 * PARTS
    epoch = Epoch(TopicPartition("in", 0), 1, {})

    def put_one(size: int) -> None:
        source = SimulatedMessage("in", 0, 0, b"k"), b"k", 1, epoch
        way: Any = None
        flat = Output(way, source, "out", bytes(size - 1), b"k", None, -1)
        outputs.put(source, flat, size)

    for size in (20_000, 10, 20_000, 10, 10, 10):
        put_one(size)
    assert outputs._added_bytes == 40_040
    with outputs.lock:
        taken = outputs.take(2)
    assert (outputs._bytes, outputs._added_bytes) == (20_010, 20_030)
    put_one(20_000)
    with outputs.lock:
        outputs.put_back(taken)
    assert (outputs._bytes, outputs._added_bytes) == (0, 60_040)
    with outputs.lock:
        outputs.take(7)
    assert (outputs._bytes, outputs._added_bytes, outputs.count_at) == (60_040, 0, 3 * PARTS)


def test_bytes_are_counted_while_other_threads_put() -> None:
    """A call whose outputs are put never fails: its record's next attempt would put them twice."""
    outputs = unacknowledged.Unacknowledged(10**9, 10**12)
    errors: list[BaseException] = []
    epoch = Epoch(TopicPartition("in", 0), 1, {})
    source: Any = SimulatedMessage("in", 0, 0, b"k"), b"k", 1, epoch
    way: Any = None
    large, small = Output(way, source, "out", bytes(20_000), b"k", None, -1), [way] * PARTS

    def put_large() -> None:
        try:
            for _ in range(200_000):
                outputs.put(source, large, 20_001)
        except BaseException as error:
            errors.append(error)

    def put_small() -> None:
        # As `Outlet.quick_put` does: without the lock.
        while thread.is_alive():
            outputs.added.extend(small)
            outputs.added.clear()

    interval_s = sys.getswitchinterval()
    thread = threading.Thread(target=put_large)
    sys.setswitchinterval(1e-6)
    try:
        thread.start()
        put_small()
    finally:
        sys.setswitchinterval(interval_s)
        thread.join()
    assert errors == [], f"FACT: a put failed after its outputs were added: {errors}"
