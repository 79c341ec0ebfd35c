"""The virtual clock: time passes only when asked to, and timers run in order."""

from __future__ import annotations

import math

import pytest

from tests.kit.clock import VirtualClock


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


def test_clock_refuses_to_go_back() -> None:
    """Negative, past and unbounded times are errors of the test, not something to guess about."""
    clock = VirtualClock(start_s=5.0)
    with pytest.raises(ValueError, match="go back"):
        clock.advance(-1.0)
    with pytest.raises(ValueError, match="go back"):
        clock.advance_to(4.0)
    with pytest.raises(ValueError, match="finite"):
        clock.call_at(math.inf, lambda: None)
