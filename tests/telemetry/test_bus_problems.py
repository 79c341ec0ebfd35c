from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.telemetry.bus import EventBus
from tests.kit.clock import VirtualClock
from tests.kit.unstolen import unstolen_s
from tests.telemetry.conftest import DEADLINE_S, assigned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ehkafka.events import Event


class Raising:
    """A hook that raises what it is given, each time."""

    def __init__(self, error: type[BaseException] = ValueError) -> None:
        self.error = error

    def on_event(self, event: Event) -> None:
        """Raise."""
        raise self.error("the hook's own problem")


class BrokenHandler(logging.Handler):
    """A log handler that raises."""

    def emit(self, record: logging.LogRecord) -> None:
        """Raise."""
        raise OSError("the log's own problem")


class BlockedHandler(logging.Handler):
    """A log handler that blocks, and thereby every thread that logs: logging holds its lock meanwhile."""

    def __init__(self, gate: Any) -> None:
        super().__init__()
        self.gate = gate

    def emit(self, record: logging.LogRecord) -> None:
        """Block."""
        self.gate.on_event(record)


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


def lines_with(log: pytest.LogCaptureFixture, part: str) -> list[logging.LogRecord]:
    """Return the log records whose message contains a text."""
    return [record for record in log.records if part in record.getMessage()]


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
def test_a_raising_hook_harms_no_other(
    error: type[BaseException], log: pytest.LogCaptureFixture, seen: Any
) -> None:
    """The next hook gets each event, the error is counted each time and logged once."""
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


def test_a_raising_log_handler_harms_no_hook(
    add_log_handler: Callable[[logging.Handler], None], capsys: pytest.CaptureFixture[str], seen: Any
) -> None:
    """The hooks go on; since the log cannot say it, standard error does, once."""
    add_log_handler(BrokenHandler())
    bus = EventBus([seen])
    bus.start()
    for epoch in range(3):
        bus.emit(assigned(epoch))
    assert bus.close(DEADLINE_S) == 0

    assert seen.epochs == [0, 1, 2]
    # The line that the three events share, and the one about the error.
    assert bus.counters_snapshot()["hook_errors"] == 2
    assert capsys.readouterr().err.count("the log raised OSError") == 1


def test_a_blocking_log_handler_stops_neither_emit_nor_the_counters(
    gate: Any, add_log_handler: Callable[[logging.Handler], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """Not even `close` waits for it beyond the time it was given, nor says so through it."""
    add_log_handler(BlockedHandler(gate))
    bus = EventBus()
    bus.start()
    for epoch in range(10):
        bus.emit(assigned(epoch))
    assert gate.entered.wait(DEADLINE_S)

    assert bus.counters_snapshot()["PartitionAssigned"] == 10
    assert bus.close(0.01) == 10
    assert "10 telemetry events were not reported within 0.01 s: the log had not ended" in (
        capsys.readouterr().err
    )


def test_overflow_is_counted_exactly_and_logged_once(
    gate: Any, log: pytest.LogCaptureFixture, seen: Any, wait_until: Callable[[Callable[[], bool]], None]
) -> None:
    """The bound includes the event that the hook holds; on recovery one line says how many were dropped."""
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


def test_a_queue_that_never_recovers_is_reported_all_the_same(
    log: pytest.LogCaptureFixture, wait_until: Callable[[Callable[[], bool]], None]
) -> None:
    """A hook that is always a little too slow does not keep its drops a secret."""
    clock = VirtualClock()
    step, reported = threading.Semaphore(0), threading.Semaphore(0)

    class Slow:
        def on_event(self, event: Event) -> None:
            assert step.acquire(timeout=DEADLINE_S)
            reported.release()

    bus = EventBus([Slow()], queued_events_max=4, now_s=clock.now_s)
    bus.start()

    def fill_and_take_one() -> None:
        for _ in range(5):
            bus.emit(assigned())
        step.release()
        assert reported.acquire(timeout=DEADLINE_S)
        wait_until(lambda: bus._accepted_events - bus._reported_events < 4)

    fill_and_take_one()
    fill_and_take_one()
    assert lines_with(log, "telemetry events") == []
    clock.advance(30.0)
    fill_and_take_one()
    wait_until(lambda: len(lines_with(log, "telemetry events")) == 1)
    step.release(8)
    assert bus.close(DEADLINE_S) == 0
    dropped = sum(int(line.getMessage().split()[0]) for line in lines_with(log, "telemetry events"))
    assert dropped == bus.counters_snapshot()["events_dropped"]


def test_close_with_a_stuck_hook_returns_in_time_and_names_it(
    gate: Any, capsys: pytest.CaptureFixture[str], seen: Any, wait_until: Callable[[Callable[[], bool]], None]
) -> None:
    """It says how many were not reported and counts them as dropped; the hook gets nothing afterwards."""
    bus = EventBus([gate, seen])
    bus.start()
    for epoch in range(5):
        bus.emit(assigned(epoch))
    assert gate.entered.wait(DEADLINE_S)

    began_s = unstolen_s()
    assert bus.close(0.05) == 5
    assert unstolen_s() - began_s < DEADLINE_S / 2
    assert "5 telemetry events were not reported within 0.05 s: hook Gate had not ended" in (
        capsys.readouterr().err
    )
    gate.opened.set()
    assert bus.close(DEADLINE_S) == 5
    wait_until(lambda: not bus._thread or not bus._thread.is_alive())
    assert seen == []
    assert bus.counters_snapshot()["events_dropped"] == 5


def test_a_hook_that_closes_the_bus_is_reported_why_not(log: pytest.LogCaptureFixture) -> None:
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
