from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, get_args

import pytest

from ehkafka.errors import ConfigurationError, EngineError
from ehkafka.events import CommitFailed, Event, PartitionAssigned, PartitionResumed
from ehkafka.records import TopicPartition
from ehkafka.telemetry.bus import COUNTERS, CounterName, EventBus
from ehkafka.testing.clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PARTITION = TopicPartition("readings", 0)
DEADLINE_S = 20.0


class Seen:
    """A hook that keeps what it gets."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.threads: set[str] = set()

    def on_event(self, event: Event) -> None:
        """Keep it."""
        self.threads.add(threading.current_thread().name)
        self.events.append(event)

    @property
    def epochs(self) -> list[int]:
        """The epochs of the assignments among them, in order."""
        return [event.epoch for event in self.events if isinstance(event, PartitionAssigned)]


class Raising:
    """A hook that raises what it is given, each time."""

    def __init__(self, error: type[BaseException] = ValueError) -> None:
        self.error = error

    def on_event(self, event: Event) -> None:
        """Raise."""
        raise self.error("the hook's own trouble")


class Gate:
    """Blocks its caller from the moment of entry until opened."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.opened = threading.Event()

    def on_event(self, event: object) -> None:
        """Wait for `opened`; as a hook, or as a logging filter through `filter`."""
        self.entered.set()
        assert self.opened.wait(DEADLINE_S)

    def filter(self, record: logging.LogRecord) -> bool:
        """Block as part of a log handler."""
        self.on_event(record)
        return True


class BrokenHandler(logging.Handler):
    """A log handler that raises."""

    def emit(self, record: logging.LogRecord) -> None:
        """Raise."""
        raise OSError("the log's own trouble")


@pytest.fixture(autouse=True)
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Capture everything that the bus logs."""
    caplog.set_level(logging.DEBUG, logger="ehkafka")
    return caplog


@pytest.fixture
def gate() -> Iterator[Gate]:
    """Return a gate that is open after the test, whatever happened."""
    gate = Gate()
    yield gate
    gate.opened.set()


@pytest.fixture
def add_log_handler() -> Iterator[Callable[[logging.Handler], None]]:
    """Attach handlers to the logger for one test."""
    logger, added = logging.getLogger("ehkafka"), []

    def add(handler: logging.Handler) -> None:
        logger.addHandler(handler)
        added.append(handler)

    yield add
    for handler in added:
        logger.removeHandler(handler)


def assigned(epoch: int = 1) -> PartitionAssigned:
    """Return an event that a test can tell from others."""
    return PartitionAssigned(PARTITION, epoch, "earliest")


def wait_until(true: Callable[[], bool]) -> None:
    """Poll with a deadline."""
    deadline_s = time.monotonic() + DEADLINE_S
    while not true():
        assert time.monotonic() < deadline_s, "waited in vain"
        time.sleep(0.001)


def lines_with(log: pytest.LogCaptureFixture, part: str) -> list[logging.LogRecord]:
    """Return the log records whose message contains a text."""
    return [record for record in log.records if part in record.getMessage()]


def test_hooks_get_every_event_in_emit_order_on_the_telemetry_thread() -> None:
    """One at a time, each hook all of them, also those emitted before the start."""
    first, second = Seen(), Seen()
    bus = EventBus([first])
    bus.emit(assigned(0))
    bus.add_hook(second)
    bus.start()
    for epoch in range(1, 1_000):
        bus.emit(assigned(epoch))

    assert bus.close(DEADLINE_S) == 0
    assert first.epochs == second.epochs == list(range(1_000))
    assert first.threads == {"ehkafka-telemetry"}


def test_events_are_logged_at_their_level(log: pytest.LogCaptureFixture) -> None:
    """A sentence, with the fields for structured loggers."""
    bus = EventBus()
    bus.start()
    bus.emit(assigned(7))
    bus.emit(PartitionResumed(PARTITION, 1.0))
    bus.close(DEADLINE_S)

    assert [(record.name, record.levelno) for record in log.records] == [
        ("ehkafka", logging.INFO),
        ("ehkafka", logging.DEBUG),
    ]
    assert vars(log.records[0])["epoch"] == 7


def test_counters_are_exact_from_many_threads(gate: Gate) -> None:
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


def test_counters_are_complete_and_immutable() -> None:
    """Each kind of event and each documented counter is there from the start, at zero."""
    counters = EventBus().counters_snapshot()

    assert set(COUNTERS) == set(get_args(CounterName))
    assert {*COUNTERS, "CommitFailed", "StuckReport", "AppStarted"} <= set(counters)
    assert set(counters.values()) == {0}
    with pytest.raises(TypeError):
        counters["hook_errors"] = 1  # type: ignore[index]


def test_a_snapshot_does_not_change_afterwards() -> None:
    """It is a copy, not a view."""
    bus = EventBus()
    before = bus.counters_snapshot()
    bus.emit(assigned())

    assert before["PartitionAssigned"] == 0
    assert bus.counters_snapshot()["PartitionAssigned"] == 1


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
def test_a_raising_hook_harms_nobody(error: type[BaseException], log: pytest.LogCaptureFixture) -> None:
    """The next hook gets each event, the error is counted each time and logged once."""
    seen = Seen()
    bus = EventBus([Raising(error), seen])
    bus.start()
    for epoch in range(5):
        bus.emit(assigned(epoch))
    assert bus.close(DEADLINE_S) == 0

    assert seen.epochs == [0, 1, 2, 3, 4]
    assert bus.counters_snapshot()["hook_errors"] == 5
    [line] = lines_with(log, "hook Raising raised")
    assert line.levelno == logging.ERROR
    assert f"{error.__name__} on PartitionAssigned" in line.getMessage()
    assert line.exc_info is not None


def test_each_hook_and_kind_of_error_is_logged_once(log: pytest.LogCaptureFixture) -> None:
    """A second hook or another error is news."""
    changing = Raising(ValueError)
    bus = EventBus([changing, Raising(ValueError)])
    bus.start()
    for error in (ValueError, OSError, ValueError, OSError):
        handled = bus.counters_snapshot()["hook_errors"] + 2
        changing.error = error
        bus.emit(assigned())
        wait_until(lambda: bus.counters_snapshot()["hook_errors"] == handled)  # noqa: B023 - called at once
    bus.close(DEADLINE_S)

    assert len(lines_with(log, "raised")) == 3


def test_a_raising_log_handler_harms_nobody(
    add_log_handler: Callable[[logging.Handler], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """The hooks go on; since the log cannot say it, standard error does, once."""
    add_log_handler(BrokenHandler())
    seen = Seen()
    bus = EventBus([seen])
    bus.start()
    for epoch in range(3):
        bus.emit(assigned(epoch))
    assert bus.close(DEADLINE_S) == 0

    assert seen.epochs == [0, 1, 2]
    # Three events and the one line about the error.
    assert bus.counters_snapshot()["hook_errors"] == 4
    assert capsys.readouterr().err.count("the log raised OSError") == 1


def test_a_blocking_hook_stops_neither_emit_nor_the_counters(gate: Gate) -> None:
    """While it hangs everything is counted at once; when it returns, everything is told."""
    seen = Seen()
    bus = EventBus([gate, seen])
    bus.start()
    bus.emit(assigned(0))
    assert gate.entered.wait(DEADLINE_S)
    for epoch in range(1, 100):
        bus.emit(assigned(epoch))

    assert bus.counters_snapshot()["PartitionAssigned"] == 100
    assert seen.epochs == []
    gate.opened.set()
    assert bus.close(DEADLINE_S) == 0
    assert seen.epochs == list(range(100))


def test_a_blocking_log_handler_stops_neither_emit_nor_the_counters(
    gate: Gate, add_log_handler: Callable[[logging.Handler], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """Not even `close` waits for it beyond the time it was given, nor says so through it."""
    handler = logging.NullHandler()
    handler.handle = gate.filter  # type: ignore[method-assign]
    add_log_handler(handler)
    bus = EventBus()
    bus.start()
    for epoch in range(10):
        bus.emit(assigned(epoch))
    assert gate.entered.wait(DEADLINE_S)

    assert bus.counters_snapshot()["PartitionAssigned"] == 10
    assert bus.close(0.01) == 10
    assert "10 telemetry events were counted but not told within 0.01 s: the log was not done" in (
        capsys.readouterr().err
    )


def test_overflow_is_counted_exactly_and_logged_once(gate: Gate, log: pytest.LogCaptureFixture) -> None:
    """The bound includes the event that the hook holds; on recovery one line says how many were dropped."""
    seen = Seen()
    bus = EventBus([gate, seen], queued_events_max=10)
    bus.start()
    for epoch in range(25):
        bus.emit(assigned(epoch))

    assert bus.counters_snapshot()["events_dropped"] == 15
    assert bus.counters_snapshot()["PartitionAssigned"] == 25
    gate.opened.set()
    wait_until(lambda: len(lines_with(log, "15 telemetry events")) == 1)
    bus.emit(assigned(25))
    assert bus.close(DEADLINE_S) == 0
    assert seen.epochs == [*range(10), 25]
    assert len(lines_with(log, "telemetry events")) == 1
    assert bus.counters_snapshot()["events_dropped"] == 15


def test_a_queue_that_never_recovers_is_reported_all_the_same(log: pytest.LogCaptureFixture) -> None:
    """A hook that is always a little too slow does not keep its drops a secret."""
    clock = VirtualClock()
    step, told = threading.Semaphore(0), threading.Semaphore(0)

    class Slow:
        def on_event(self, event: Event) -> None:
            assert step.acquire(timeout=DEADLINE_S)
            told.release()

    bus = EventBus([Slow()], queued_events_max=4, now_s=clock.now_s)
    bus.start()

    def fill_and_take_one() -> None:
        for _ in range(5):
            bus.emit(assigned())
        step.release()
        assert told.acquire(timeout=DEADLINE_S)
        wait_until(lambda: bus._accepted_events - bus._told_events < 4)

    fill_and_take_one()
    fill_and_take_one()
    assert lines_with(log, "telemetry events") == []
    clock.advance(30.0)
    fill_and_take_one()
    step.release(8)
    assert bus.close(DEADLINE_S) == 0
    assert len(lines_with(log, "telemetry events")) >= 1
    dropped = sum(int(line.getMessage().split()[0]) for line in lines_with(log, "telemetry events"))
    assert dropped == bus.counters_snapshot()["events_dropped"]


def test_close_with_a_stuck_hook_returns_in_time_and_names_it(
    gate: Gate, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says how many were not told and counts them as dropped; the hook gets nothing afterwards."""
    seen = Seen()
    bus = EventBus([gate, seen])
    bus.start()
    for epoch in range(5):
        bus.emit(assigned(epoch))
    assert gate.entered.wait(DEADLINE_S)

    began_s = time.monotonic()
    assert bus.close(0.05) == 5
    assert time.monotonic() - began_s < DEADLINE_S / 2
    assert "5 telemetry events were counted but not told within 0.05 s: hook Gate was not done" in (
        capsys.readouterr().err
    )
    gate.opened.set()
    assert bus.close(DEADLINE_S) == 5
    wait_until(lambda: not bus._thread or not bus._thread.is_alive())
    assert seen.events == []
    assert bus.counters_snapshot()["events_dropped"] == 5


def test_after_close_events_are_only_counted() -> None:
    """A worker that outlives the stop harms nothing, and its events are no drops."""
    seen = Seen()
    bus = EventBus([seen])
    bus.start()
    assert bus.close(DEADLINE_S) == 0
    bus.emit(assigned())

    assert bus.counters_snapshot()["PartitionAssigned"] == 1
    assert bus.counters_snapshot()["events_dropped"] == 0
    assert bus.close(DEADLINE_S) == 0
    assert seen.events == []


def test_close_without_start_says_what_nobody_was_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Events of an app that failed before its telemetry ran are not lost in silence."""
    bus = EventBus()
    bus.emit(assigned())

    assert bus.close(DEADLINE_S) == 1
    assert "start() was never called" in capsys.readouterr().err


def test_close_tells_the_suppressed_warnings(log: pytest.LogCaptureFixture) -> None:
    """A series of warnings that a stop cut short is accounted for in the log."""
    bus = EventBus()
    bus.start()
    for _ in range(10):
        bus.emit(CommitFailed((PARTITION,), "busy", retriable=True))
    bus.close(DEADLINE_S)

    assert [vars(record)["suppressed"] for record in log.records] == [0, 8]
    assert bus.counters_snapshot()["CommitFailed"] == 10


def test_a_hook_that_closes_the_bus_is_told_why_not(log: pytest.LogCaptureFixture) -> None:
    """Waiting for itself would be a deadlock."""

    class Closing:
        def on_event(self, event: Event) -> None:
            bus.close(DEADLINE_S)

    bus = EventBus([Closing()])
    bus.start()
    bus.emit(assigned())
    assert bus.close(DEADLINE_S) == 0

    [line] = lines_with(log, "raised EngineError")
    assert "ask the app to stop" in (line.exc_text or str(line.exc_info))


def test_a_hook_may_emit() -> None:
    """It is just another thread to the bus."""

    class Echo:
        def on_event(self, event: Event) -> None:
            if isinstance(event, PartitionAssigned):
                bus.emit(PartitionResumed(PARTITION, 1.0))

    seen = Seen()
    bus = EventBus([Echo(), seen])
    bus.start()
    bus.emit(assigned())
    wait_until(lambda: len(seen.events) == 2)
    assert bus.close(DEADLINE_S) == 0


def test_a_bus_starts_once() -> None:
    """Neither twice nor after its close."""
    bus = EventBus()
    bus.start()
    with pytest.raises(EngineError, match="starts once"):
        bus.start()
    bus.close(DEADLINE_S)
    with pytest.raises(EngineError, match="starts once"):
        bus.start()


def test_what_is_no_hook_is_refused_at_once() -> None:
    """Not when the first event comes."""
    with pytest.raises(ConfigurationError, match=r"on_event\(event\); int has none"):
        EventBus([3])  # type: ignore[list-item]
    with pytest.raises(ConfigurationError, match="queued_events_max"):
        EventBus(queued_events_max=0)
