"""Hooks and logs that keep what they get, a gate that blocks, time that a test moves."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.events import PartitionAssigned
from ehkafka.records import TopicPartition
from ehkafka.telemetry.log_lines import LogLines
from tests.kit.clock import VirtualClock
from tests.kit.events import Events
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


DEADLINE_S = 20.0
PARTITION = TopicPartition("readings", 0)


class Seen(Events):
    """A hook that keeps what it gets, and the names of the threads that brought it."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[str] = set()

    def on_event(self, event: object) -> None:
        """Keep it."""
        self.threads.add(threading.current_thread().name)
        super().on_event(event)

    @property
    def epochs(self) -> list[int]:
        """The epochs of the assignments among them, in order."""
        return [event.epoch for event in self.of(PartitionAssigned)]


class Gate:
    """Blocks its caller from the moment of entry until opened."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.opened = threading.Event()

    def on_event(self, event: object) -> None:
        """Wait for `opened`."""
        self.entered.set()
        assert self.opened.wait(DEADLINE_S)


def assigned(epoch: int = 1) -> PartitionAssigned:
    """Return an event that a test can tell from others."""
    return PartitionAssigned(PARTITION, epoch, "earliest")


@pytest.fixture
def seen() -> Seen:
    """Return a hook that keeps what it gets."""
    return Seen()


@pytest.fixture
def gate() -> Iterator[Gate]:
    """Return a gate that is open after the test, whatever happened."""
    gate = Gate()
    yield gate
    gate.opened.set()


@pytest.fixture(autouse=True)
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Capture everything that the bus logs."""
    caplog.set_level(logging.DEBUG, logger="ehkafka")
    return caplog


@pytest.fixture(name="wait_until")
def wait_until_fixture() -> Callable[..., Any]:
    """Return what waits for a condition."""
    return wait_until


class Lines(logging.Handler):
    """Collects log records of a logger of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []
        self.logger = logging.Logger("lines", logging.DEBUG)  # noqa: LOG001 - one for each test
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        self.records.append(record)

    @property
    def suppressed(self) -> list[int]:
        """How many were suppressed before each line."""
        return [vars(record)["suppressed"] for record in self.records]


@pytest.fixture
def clock() -> VirtualClock:
    """Time that a test moves."""
    return VirtualClock()


@pytest.fixture
def logged() -> Lines:
    """Return what reaches the log."""
    return Lines()


@pytest.fixture
def lines(logged: Lines, clock: VirtualClock) -> LogLines:
    """Return the writer under test."""
    return LogLines(logged.logger, clock.now_s)
