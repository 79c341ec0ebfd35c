"""Seeds of the simulator until one notices that a guard is missing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.kit.simulated.plan import NEVER_S, WAYS
from tests.kit.simulated.simulator import Simulation

SEEDS_MAX = {"": 60, "batches": 60, "transactions": 180, "short-texts": 120}
# Workers that stay as many and poll threads in time find most at once.
CALM = {"held_up_share": 0.0, "resize_s": NEVER_S}


def seeds(first: int = 0, way: str = "", **changes: Any) -> None:
    """Run seeds in a way, from the one that noticed it when this was written; raises what is wrong."""
    for seed in range(first, first + SEEDS_MAX[way]):
        report = Simulation(replace(WAYS[way](seed), **({} if way else CALM), **changes)).run()
        assert report.ok, report.report()
