"""Seeds of the simulator: every promise of the contract under random schedules and faults.

`scripts/simulate` runs more of them.
"""

from __future__ import annotations

import os

import pytest

from ehkafka.testing.simulated_plan import SimulationPlan
from ehkafka.testing.simulator import SimulationReport, simulate

SEEDS = int(os.environ.get("EHKAFKA_SIMULATION_SEEDS", "120"))
CHUNK = 20


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_no_seed_breaks_a_promise(first: int) -> None:
    """C9, R1 to R7: lost, premature, order, stale and unseen are 0; no duplicate without a fault."""
    for seed in range(first, min(first + CHUNK, SEEDS)):
        report = simulate(seed)
        assert report.ok, report.report()


def test_a_seed_replays_exactly() -> None:
    """C9: the command that a failing seed prints shows the same run."""
    assert _outline(simulate(3, trace=True)) == _outline(simulate(3, trace=True))


def test_the_seeds_see_what_they_are_meant_to_see() -> None:
    """C9: a simulation in which nothing happens proves nothing."""
    reports = [simulate(seed) for seed in range(15)]
    verdicts = [report.verdict for report in reports]
    assert {report.plan.scope for report in reports} == {"partition", "handler"}
    assert {report.plan.cooperative for report in reports} == {True, False}
    assert any(report.plan.graceful for report in reports)
    assert sum(verdict.duplicates for verdict in verdicts) > 0, "no fault made anything repeat"
    assert sum(verdict.in_flight_at_end for verdict in verdicts) > 0, "no handler outlived its epoch"
    assert sum(verdict.epochs for verdict in verdicts) > 100
    assert all(verdict.commits_acknowledged for verdict in verdicts)


def test_a_plan_is_drawn_from_its_seed_alone() -> None:
    """C9: the same seed means the same plan, another seed another."""
    assert SimulationPlan.drawn(7) == SimulationPlan.drawn(7)
    assert SimulationPlan.drawn(7) != SimulationPlan.drawn(8)


def _outline(report: SimulationReport) -> tuple[object, ...]:
    return report.steps, report.virtual_s, report.trace, report.verdict
