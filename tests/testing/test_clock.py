"""The virtual clock: time passes only when asked to, and timers run in order."""

from __future__ import annotations

import math

import pytest

from tests.kit.clock import VirtualClock


def test_time_stands_still_until_advanced() -> None:
    """`now_s` is a drop-in for `time.monotonic`."""
    clock = VirtualClock(start_s=100.0)
    assert clock.now_s() == 100.0
    assert clock.now_s() == 100.0
    clock.advance(2.5)
    assert clock.now_s() == 102.5


def test_timers_run_by_time_then_by_call() -> None:
    """Equal times keep the order of `call_at`, which makes every run the same."""
    clock, ran = VirtualClock(), []
    clock.call_at(2.0, lambda: ran.append("b"))
    clock.call_at(1.0, lambda: ran.append("a"))
    clock.call_at(2.0, lambda: ran.append("c"))
    clock.advance(1.999)
    assert ran == ["a"]
    clock.advance_to(2.0)
    assert ran == ["a", "b", "c"]


def test_timer_reads_its_own_time_and_may_add_timers() -> None:
    """A periodic task rescheduled from its own timer runs for every period of one long advance."""
    clock = VirtualClock()
    ticks: list[float] = []

    def tick() -> None:
        ticks.append(clock.now_s())
        clock.call_after(1.0, tick)

    clock.call_after(1.0, tick)
    clock.advance(3.5)
    assert ticks == [1.0, 2.0, 3.0]
    assert clock.now_s() == 3.5
    assert clock.next_timer_s() == 4.0


def test_cancelled_timer_never_runs() -> None:
    """Cancelling works from another timer and twice."""
    clock, ran = VirtualClock(), []
    late = clock.call_at(2.0, lambda: ran.append("late"))
    clock.call_at(1.0, late.cancel)
    clock.advance(3.0)
    late.cancel()
    assert ran == []
    assert not late.pending
    assert clock.next_timer_s() is None


def test_timer_in_the_past_runs_at_the_next_advance() -> None:
    """A deadline that has passed is due at once, and never turns time back."""
    clock, ran = VirtualClock(start_s=10.0), []
    clock.call_at(3.0, lambda: ran.append(clock.now_s()))
    assert ran == []
    clock.advance(0.0)
    assert ran == [10.0]


def test_raising_timer_leaves_the_later_ones_pending() -> None:
    """An error in a timer reaches the caller, with the clock at that time."""
    clock, ran = VirtualClock(), []
    clock.call_at(1.0, lambda: 1 / 0)
    clock.call_at(2.0, lambda: ran.append("second"))
    with pytest.raises(ZeroDivisionError):
        clock.advance(5.0)
    assert clock.now_s() == 1.0
    clock.advance(1.0)
    assert ran == ["second"]


def test_clock_refuses_to_go_back() -> None:
    """Negative, past and unbounded times are errors of the test, not something to guess about."""
    clock = VirtualClock(start_s=5.0)
    with pytest.raises(ValueError, match="go back"):
        clock.advance(-1.0)
    with pytest.raises(ValueError, match="go back"):
        clock.advance_to(4.0)
    with pytest.raises(ValueError, match="finite"):
        clock.call_at(math.inf, lambda: None)


def test_clock_refuses_to_be_advanced_by_its_own_timer() -> None:
    """Nested time would run later timers before earlier ones."""
    clock = VirtualClock()
    clock.call_at(1.0, lambda: clock.advance(1.0))
    with pytest.raises(RuntimeError, match="call_after"):
        clock.advance(2.0)
