"""Seeds of the simulator until one notices that a guard is missing.

`first` is where to begin: the seed that noticed it when this was written. Later ones follow.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.kit.simulated.plan import NEVER_S, SimulationPlan
from tests.kit.simulated.simulator import simulate

if TYPE_CHECKING:
    from collections.abc import Callable

SEEDS_MAX = 60


def a_seed_is_red(first: int = 0) -> bool:
    """Run seeds with workers of single records."""
    return _is_red(SimulationPlan.drawn, SEEDS_MAX, first, held_up_share=0.0, resize_s=NEVER_S)


def a_graceful_seed_is_red() -> bool:
    """Run seeds without faults: nothing may be repeated there."""
    plans = (SimulationPlan.drawn(seed) for seed in range(5 * SEEDS_MAX))
    return any(not simulate(plan.seed, plan=plan).ok for plan in plans if plan.graceful)


def a_batch_seed_is_red(first: int = 0) -> bool:
    """Run seeds with batches."""
    return _is_red(SimulationPlan.drawn_with_batches, SEEDS_MAX, first)


def a_saving_seed_is_red(first: int = 0) -> bool:
    """Run seeds that save what is finished above the commit."""
    return _is_red(SimulationPlan.drawn, SEEDS_MAX, first, saves_ranges=True)


def a_transaction_seed_is_red(first: int = 0) -> bool:
    """Run seeds with transactions."""
    return _is_red(SimulationPlan.drawn_with_transactions, 3 * SEEDS_MAX, first)


def a_transaction_seed_with_short_texts_is_red(first: int = 0) -> bool:
    """The same where commits have no room for all that is finished above them."""
    return _is_red(SimulationPlan.drawn_with_short_texts, 2 * SEEDS_MAX, first)


def _is_red(draw: Callable[[int], SimulationPlan], seeds: int, first: int, **changes: Any) -> bool:
    plans = (replace(draw(seed), **changes) for seed in range(first, first + seeds))
    return any(not simulate(plan.seed, plan=plan).ok for plan in plans)
