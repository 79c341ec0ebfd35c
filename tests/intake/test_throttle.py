"""Throttling: what brokers say of it is summed up, and silence proves nothing meanwhile."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import ThrottleEvent

from ehkafka.events import Throttled
from ehkafka.intake.contact import Contact
from ehkafka.intake.throttle import AFTERMATH_S, Throttle
from ehkafka.intake.watch import ProgressWatch
from ehkafka.lanes.epoch import Epoch
from ehkafka.positions.gap import LogBounds
from ehkafka.positions.log_book import LogBook
from ehkafka.records import TopicPartition
from ehkafka.telemetry.picture import _lag_and_age, _log_age_s
from tests.kit.clock import VirtualClock

if TYPE_CHECKING:
    from ehkafka.events import Event

P0 = TopicPartition("t", 0)
BROKER = "broker:9093/1"


@pytest.fixture
def clock() -> VirtualClock:
    """Return a clock that only a test moves."""
    return VirtualClock()


@pytest.fixture
def reported() -> list[Event]:
    """Collect what is emitted."""
    return []


@pytest.fixture
def throttle(clock: VirtualClock, reported: list[Event]) -> Throttle:
    """Return one that has heard nothing yet."""
    return Throttle(clock.now_s, reported.append)


def test_what_brokers_say_is_summed_up_and_reported(throttle: Throttle, reported: list[Event]) -> None:
    """Each answer that was held back counts; the zero that ends it does not."""
    for throttle_s in (1.5, 0.25, 0.0):
        throttle.on_throttle(ThrottleEvent(BROKER, 1, throttle_s))
    assert throttle.total_s == 1.75
    assert reported == [Throttled(BROKER, 1.5), Throttled(BROKER, 0.25)]


def test_silence_proves_nothing_until_a_while_after_the_last_throttling(
    throttle: Throttle, clock: VirtualClock
) -> None:
    """The time that was reported, and the time of a fetch that finds nothing; a shorter one ends nothing."""
    assert not throttle.is_recent
    throttle.on_throttle(ThrottleEvent(BROKER, 1, 3.0))
    throttle.on_throttle(ThrottleEvent(BROKER, 2, 0.5))
    clock.advance(3.0 + AFTERMATH_S - 0.01)
    assert throttle.is_recent
    clock.advance(0.02)
    assert not throttle.is_recent


def _run_at_once(_name: str, steps: Any, order: Any) -> None:
    assert order == P0
    for step in steps.values():
        step()


class Stand:
    """What the watch needs of an app, and a partition that has received everything up to 10."""

    def __init__(self, throttle: Throttle, clock: VirtualClock) -> None:
        self.idle = threading.Event()
        self.epoch = Epoch(P0, 1, {})
        self.epoch.received.next_offset = 10
        owned = SimpleNamespace(logs=LogBook(), epochs=lambda: [self.epoch])
        self.context: Any = SimpleNamespace(
            clock=clock.now_s,
            emit=lambda _event: None,
            brokers=SimpleNamespace(throttle=throttle, contact=Contact(clock.now_s, 60.0)),
            owned=owned,
            flow=SimpleNamespace(paused=set(), has_withheld=False),
            options=SimpleNamespace(idle_s=5.0, stuck_s=300.0),
            hook_threads=SimpleNamespace(
                hooks=SimpleNamespace(on_idle=lambda _partition: self.idle.set()),
                submit=_run_at_once,
                check=lambda: None,
            ),
        )
        self.watch = ProgressWatch(self.context, [])
        self.ends(10)

    def ends(self, end: int) -> None:
        """Let a broker say where the log ends now."""
        self.context.owned.logs.answered(P0, LogBounds(0, end), self.context.clock())

    def check(self, end: int = 10) -> None:
        """Look at what is idle, just after a broker said so."""
        self.ends(end)
        self.watch.check()


def test_nothing_is_idle_while_a_broker_throttles(throttle: Throttle, clock: VirtualClock) -> None:
    """on_idle waits until silence has lasted for idle_s after the throttling."""
    stand = Stand(throttle, clock)
    for _ in range(20):
        throttle.on_throttle(ThrottleEvent(BROKER, 1, 1.0))
        stand.check()
        clock.advance(1.0)
    assert not stand.idle.is_set()
    clock.advance(AFTERMATH_S - 0.1)
    stand.check()
    clock.advance(4.9)
    stand.check()
    assert not stand.idle.is_set()
    clock.advance(0.2)
    stand.check()
    assert stand.idle.is_set()


def test_a_partition_behind_the_known_end_is_not_idle(throttle: Throttle, clock: VirtualClock) -> None:
    """An empty fetch without any word of throttling is no end either while the log goes on."""
    stand = Stand(throttle, clock)
    for _ in range(20):
        stand.check(11)
        clock.advance(1.0)
    assert not stand.idle.is_set()


def test_nothing_is_idle_before_the_first_answer(throttle: Throttle, clock: VirtualClock) -> None:
    """A slow first fetch is no silence of the log."""
    stand = Stand(throttle, clock)
    stand.context.owned.logs.forget(P0)
    for _ in range(20):
        stand.watch.check()
        clock.advance(1.0)
    assert not stand.idle.is_set()


def test_an_old_answer_makes_nothing_idle_and_after_unreachable_s_the_lag_is_unknown(
    throttle: Throttle, clock: VirtualClock
) -> None:
    """The leader is silent: what it said before proves nothing of now."""
    stand = Stand(throttle, clock)
    for _ in range(60):
        stand.context.brokers.contact.note_turn()
        stand.watch.check()
        assert _lag_and_age(stand.context, stand.epoch, None, 0)[0] == 0
        clock.advance(1.0)
    assert stand.context.owned.logs.wanted == {P0}
    assert _lag_and_age(stand.context, stand.epoch, None, 0)[0] is None
    stand.ends(10)
    stand.context.brokers.contact.check(1.0)
    assert _lag_and_age(stand.context, stand.epoch, None, 0)[0] == 0
    assert not stand.idle.is_set()


@pytest.mark.parametrize(("stopped_s", "lag"), [(7.9, 0), (8.0, None), (600.0, None)])
def test_after_a_time_in_which_the_process_did_not_run_the_lag_is_not_known_yet(
    throttle: Throttle, clock: VirtualClock, stopped_s: float, lag: int | None
) -> None:
    """It has no age either, which would be its leader's silence; that begins with the next looks."""
    stand = Stand(throttle, clock)
    stand.context.brokers.contact.note_turn()
    clock.advance(stopped_s)
    assert _lag_and_age(stand.context, stand.epoch, None, 0)[0] == lag
    assert _log_age_s(stand.context, P0) == (stopped_s if lag == 0 else None)
    for _ in range(60):
        stand.context.brokers.contact.note_turn()
        clock.advance(1.0)
    assert _lag_and_age(stand.context, stand.epoch, None, 0)[0] is None
    assert _log_age_s(stand.context, P0) == pytest.approx(65.0)
    stand.ends(10)
    stand.context.brokers.contact.check(1.0)
    assert _lag_and_age(stand.context, stand.epoch, None, 0)[0] == 0


def test_a_throttled_partition_has_no_lag_of_zero(throttle: Throttle, clock: VirtualClock) -> None:
    """Beyond the end that is known, nobody can tell; up to it, the lag is what it is at least."""
    stand = Stand(throttle, clock)
    assert _lag_and_age(stand.context, stand.epoch, None, 0)[0] == 0
    throttle.on_throttle(ThrottleEvent(BROKER, 1, 1.0))
    assert _lag_and_age(stand.context, stand.epoch, None, 0)[0] is None
    stand.ends(25)
    assert _lag_and_age(stand.context, stand.epoch, None, 0)[0] == 15
