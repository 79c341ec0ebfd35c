from __future__ import annotations

import signal
import sys
import threading
import time
from typing import Any, get_args

import pytest

from ehkafka.errors import ConfigurationError, EngineError
from ehkafka.events import CounterName, PartitionResumed
from ehkafka.events.event import COUNTERS
from ehkafka.records import TopicPartition
from ehkafka.telemetry.bus import EventBus
from tests.telemetry.conftest import DEADLINE_S, assigned

PARTITION = TopicPartition("readings", 0)


def test_hooks_get_every_event_in_emit_order_on_the_telemetry_thread(seen: Any) -> None:
    """One at a time, each hook all of them, also those emitted before the start."""
    first, second = seen, type(seen)()
    bus = EventBus([first])
    bus.emit(assigned(0))
    bus.add_hook(second)
    bus.start()
    for epoch in range(1, 1_000):
        bus.emit(assigned(epoch))

    assert bus.close(DEADLINE_S) == 0
    assert first.epochs == second.epochs == list(range(1_000))
    assert first.threads == {"ehkafka-telemetry"}


def test_counters_are_exact_from_many_threads(gate: Any) -> None:
    """Eight threads emit and count at once while the hook hangs; nothing is lost or counted twice."""
    bus = EventBus([gate], queued_events_max=100)
    bus.start()
    at_once = threading.Barrier(8)

    def emit_many() -> None:
        at_once.wait()
        for _ in range(5_000):
            bus.emit(assigned())
            bus.count("records_unassigned", 2)

    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=emit_many) for _ in range(8)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval_s)

    counters = bus.counters_snapshot()
    assert counters["PartitionAssigned"] == 40_000
    assert counters["records_unassigned"] == 80_000
    assert counters["events_dropped"] == 39_900
    gate.opened.set()
    assert bus.close(DEADLINE_S) == 0


def test_a_signal_handler_may_emit_while_its_thread_does() -> None:
    """The lock is re-entrant and no addition is lost, wherever the signal strikes."""
    bus = EventBus()
    before = signal.signal(signal.SIGALRM, lambda *_: bus.emit(PartitionResumed(PARTITION, 1.0)))
    own = 0
    signal.setitimer(signal.ITIMER_REAL, 0.0001, 0.0001)
    try:
        deadline_s = time.monotonic() + DEADLINE_S
        while bus.counters_snapshot()["PartitionResumed"] < 200 and time.monotonic() < deadline_s:
            for _ in range(100):
                bus.emit(assigned())
                own += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)

    counters = bus.counters_snapshot()
    assert counters["PartitionAssigned"] == own
    assert counters["PartitionResumed"] >= 200
    bus.close(0.0)


def test_counters_are_complete() -> None:
    """Each kind of event and each documented counter is there from the start, at zero."""
    counters = EventBus().counters_snapshot()

    assert set(COUNTERS) == set(get_args(CounterName))
    assert {*COUNTERS, "CommitFailed", "StuckReport", "AppStarted"} <= set(counters)
    assert set(counters.values()) == {0}


def test_after_close_events_are_only_counted(seen: Any) -> None:
    """A worker that outlives the stop harms nothing, and its events are no drops."""
    bus = EventBus([seen])
    bus.start()
    assert bus.close(DEADLINE_S) == 0
    bus.emit(assigned())

    assert bus.counters_snapshot()["PartitionAssigned"] == 1
    assert bus.counters_snapshot()["events_dropped"] == 0
    assert bus.close(DEADLINE_S) == 0
    assert seen == []


def test_close_without_start_says_what_was_not_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """Events of an app that failed before its telemetry ran are not lost in silence."""
    bus = EventBus()
    bus.emit(assigned())

    assert bus.close(DEADLINE_S) == 1
    assert "start() was never called" in capsys.readouterr().err


def test_a_bus_starts_once() -> None:
    """Neither twice nor after its close."""
    bus = EventBus()
    bus.start()
    with pytest.raises(EngineError, match="cannot be started twice"):
        bus.start()
    bus.close(DEADLINE_S)
    with pytest.raises(EngineError, match="cannot be started twice"):
        bus.start()


def test_what_is_no_hook_is_refused_at_once() -> None:
    """Not when the first event comes."""
    with pytest.raises(ConfigurationError, match=r"on_event\(event\), but int has none"):
        EventBus([3])  # type: ignore[list-item]
    with pytest.raises(ConfigurationError, match="queued_events_max"):
        EventBus(queued_events_max=0)
