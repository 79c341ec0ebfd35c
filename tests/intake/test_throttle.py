"""Throttling: what brokers say of it is summed up, and silence proves nothing meanwhile."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import ThrottleEvent

from ehkafka.events import Throttled
from ehkafka.intake.contact import Contact
from ehkafka.intake.throttle import AFTERMATH_S, Throttle
from ehkafka.intake.watch import ProgressWatch
from ehkafka.lanes.epoch import Epoch
from ehkafka.positions.gap import LogBounds
from ehkafka.positions.log_states import LogStates
from ehkafka.records import TopicPartition
from ehkafka.telemetry.picture import _lag_and_age
from tests.kit.clock import VirtualClock

P0 = TopicPartition("t", 0)
BROKER = "broker:9093/1"


def _run_at_once(_name: str, steps: Any, order: Any) -> None:
    assert order == P0
    for step in steps.values():
        step()


class Stand:
    """What the watch needs of an app, and a partition that has received everything up to 10."""

    def __init__(self) -> None:
        self.clock, self.reported = VirtualClock(), list[Any]()
        self.throttle = Throttle(self.clock.now_s, self.reported.append)
        self.idle = threading.Event()
        self.epoch = Epoch(P0, 1, {})
        self.epoch.received.next_offset = 10
        self.contact = Contact(self.clock.now_s, 60.0)
        self.logs = LogStates()
        self.context: Any = SimpleNamespace(
            clock=self.clock.now_s,
            brokers=SimpleNamespace(throttle=self.throttle, contact=self.contact),
            owned=SimpleNamespace(logs=self.logs, epochs=lambda: [self.epoch]),
            settings=SimpleNamespace(idle_s=5.0, stuck_s=300.0),
            emit=self.reported.append,
            hook_threads=SimpleNamespace(
                hooks=SimpleNamespace(on_idle=lambda _partition: self.idle.set()),
                submit=_run_at_once,
                check=lambda: None,
            ),
        )
        self.watch = ProgressWatch(self.context, [])
        self.ends(10)

    def throttled(self, throttle_s: float) -> None:
        """Let a broker say that it throttles."""
        self.throttle.on_throttle(ThrottleEvent(BROKER, 1, throttle_s))

    def ends(self, end: int) -> None:
        """Let a broker say where the log ends now."""
        self.logs.answered(P0, LogBounds(0, end), self.clock.now_s())

    def pass_time(self, seconds: int) -> None:
        """Let the loop come round while nothing else happens."""
        for _ in range(seconds):
            self.contact.note_turn()
            self.watch.check()
            self.clock.advance(1.0)

    @property
    def lag(self) -> int | None:
        """The partition's lag as it is shown."""
        return _lag_and_age(self.context, self.epoch, None, 0)[0]


@pytest.fixture
def stand() -> Stand:
    """Return one whose broker has just answered."""
    return Stand()


def test_what_brokers_say_is_summed_up_and_reported(stand: Stand) -> None:
    """Each answer that was held back counts; the zero that ends it does not."""
    for throttle_s in (1.5, 0.25, 0.0):
        stand.throttled(throttle_s)
    assert stand.throttle.total_s == 1.75
    assert stand.reported == [Throttled(BROKER, 1.5), Throttled(BROKER, 0.25)]


def test_silence_proves_nothing_until_a_while_after_the_last_throttling(stand: Stand) -> None:
    """The time that was reported, and the time of a fetch that finds nothing; a shorter one ends nothing."""
    assert not stand.throttle.is_recent
    stand.throttled(3.0)
    stand.throttled(0.5)
    stand.clock.advance(3.0 + AFTERMATH_S - 0.01)
    assert stand.throttle.is_recent
    stand.clock.advance(0.02)
    assert not stand.throttle.is_recent


@pytest.mark.parametrize("why", ["throttled", "behind", "no answer", "an old answer"])
def test_a_partition_is_idle_only_where_a_broker_has_said_that_its_log_ended(stand: Stand, why: str) -> None:
    """Silence has to last for idle_s after the throttling, and an answer has to come after that."""
    if why == "no answer":
        stand.logs.forget(P0)
    for _ in range(20):
        if why in ("throttled", "behind"):
            stand.ends(11 if why == "behind" else 10)
        if why == "throttled":
            stand.throttled(1.0)
        stand.pass_time(1)
    assert not stand.idle.is_set()
    assert stand.logs.wanted == ({P0} if why == "an old answer" else set())
    if why == "throttled":
        stand.clock.advance(AFTERMATH_S - 0.1)
        for after_s, is_idle in ((0.0, False), (4.9, False), (0.2, True)):
            stand.clock.advance(after_s)
            stand.ends(10)
            stand.watch.check()
            assert stand.idle.is_set() == is_idle


def test_a_throttled_partition_has_no_lag_of_zero(stand: Stand) -> None:
    """Beyond the end that is known it is unknown; up to it, the lag is what it is at least."""
    assert stand.lag == 0
    stand.throttled(1.0)
    assert stand.lag is None
    stand.ends(25)
    assert stand.lag == 15
