"""How many records a handler should have at hand."""

from __future__ import annotations

import pytest

from ehkafka.intake.demand import Demand


@pytest.mark.parametrize(("rate_per_s", "wanted"), [(0, 100), (50, 100), (2_000, 500), (1_000_000, 2_500)])
def test_it_is_what_a_quarter_of_a_second_takes_within_bounds(rate_per_s: int, wanted: int) -> None:
    """A hundred at least, 2 500 at most."""
    demand = Demand()
    for step in range(40):
        demand.note(rate_per_s * step // 4, step / 4)
    assert demand.wanted_records() == pytest.approx(wanted, rel=0.01)


def test_a_pause_of_the_workers_does_not_empty_their_line_at_once() -> None:
    """The mean of the last looks counts."""
    demand = Demand()
    for step in range(40):
        demand.note(1_000 * step, step / 4)
    demand.note(39_000, 10.0)
    assert demand.wanted_records() == pytest.approx(500, rel=0.01)
    for step in range(41, 60):
        demand.note(39_000, step / 4)
    assert demand.wanted_records() == 100


def test_looks_that_come_too_soon_change_nothing() -> None:
    """A rate over a millisecond is none."""
    demand = Demand()
    demand.note(0, 0.0)
    demand.note(50, 0.001)
    assert demand.wanted_records() == 100
    demand.note(800, 0.1)
    assert demand.wanted_records() == 1_000
