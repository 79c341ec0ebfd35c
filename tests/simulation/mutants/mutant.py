"""One function of the pure core with one guard less, and the simulation's seeds that notice it."""

from __future__ import annotations

import inspect
import sys
import textwrap
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ehkafka.records import TopicPartition
from tests.kit.simulated.plan import NEVER_S, SimulationPlan
from tests.kit.simulated.simulator import simulate

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

P0 = TopicPartition("t", 0)
SEEDS_MAX = 60


def a_seed_is_red() -> bool:
    """Run seeds with lanes alone until one notices something."""
    alone = {"express": False, "held_up_share": 0.0, "resize_s": NEVER_S}
    plans = (replace(SimulationPlan.drawn(seed), **alone) for seed in range(SEEDS_MAX))
    return any(not simulate(plan.seed, plan=plan).ok for plan in plans)


def an_express_seed_is_red() -> bool:
    """Run seeds with chunks until one notices something."""
    plans = (SimulationPlan.drawn_with_chunks(seed) for seed in range(SEEDS_MAX))
    return any(not simulate(plan.seed, plan=plan).ok for plan in plans)


def a_batch_seed_is_red() -> bool:
    """Run seeds with batches of chunks until one notices something."""
    plans = (SimulationPlan.drawn_with_batches(seed) for seed in range(SEEDS_MAX))
    return any(not simulate(plan.seed, plan=plan).ok for plan in plans)


def a_late_seed_is_red() -> bool:
    """Run seeds with late lanes until one notices something."""
    plans = (SimulationPlan.drawn_with_late_lanes(seed) for seed in range(SEEDS_MAX))
    return any(not simulate(plan.seed, plan=plan).ok for plan in plans)


def a_stream_seed_is_red() -> bool:
    """Run seeds with streams until one notices something."""
    plans = (SimulationPlan.drawn_with_streams(seed) for seed in range(SEEDS_MAX))
    return any(not simulate(plan.seed, plan=plan).ok for plan in plans)


def a_transaction_seed_is_red() -> bool:
    """Run seeds with transactions until one notices something."""
    plans = (SimulationPlan.drawn_with_transactions(seed) for seed in range(2 * SEEDS_MAX))
    return any(not simulate(plan.seed, plan=plan).ok for plan in plans)


def a_transaction_seed_with_short_texts_is_red() -> bool:
    """The same where commits have no room for all that is finished above them."""
    plans = (SimulationPlan.drawn_with_short_texts(seed) for seed in range(2 * SEEDS_MAX))
    return any(not simulate(plan.seed, plan=plan).ok for plan in plans)


def a_saving_seed_is_red() -> bool:
    """Run seeds with lanes that save what is finished above the commit."""
    return _is_red_with(express=False, saves_ranges=True)


def a_saving_seed_with_chunks_is_red() -> bool:
    """Run seeds with chunks that save what is finished above the commit."""
    return _is_red_with(express=True, saves_ranges=True, scope="partition", stream_records_max=0)


def a_saving_seed_with_streams_is_red() -> bool:
    """The same with streams."""
    return _is_red_with(express=True, saves_ranges=True, scope="partition", stream_records_max=4)


def _is_red_with(**changes: Any) -> bool:
    plans = (replace(SimulationPlan.drawn(seed), **changes) for seed in range(SEEDS_MAX))
    return any(not simulate(plan.seed, plan=plan).ok for plan in plans)


@dataclass(frozen=True)
class Mutant:
    """One guard less. `is_red` tells whether anything noticed."""

    name: str
    function: Callable[..., object]
    guard: str
    without: str
    is_red: Callable[[], bool] = a_seed_is_red

    def __str__(self) -> str:
        return self.name

    def apply(self, patch: pytest.MonkeyPatch) -> None:
        """Replace the function by its mutant."""
        source = textwrap.dedent(inspect.getsource(self.function))
        assert source.count(self.guard) == 1, f"the guard is not there any more: {self.guard}"
        module = sys.modules[self.function.__module__]
        owner, name = self.function.__qualname__.split(".")
        # In a function with the name by which `super()` finds the class.
        inner = textwrap.indent(source.replace(self.guard, self.without), "    ")
        code = f"from __future__ import annotations\ndef make(__class__):\n{inner}\n    return {name}"
        made: dict[str, Any] = {}
        exec(compile(code, f"<{self.name}>", "exec"), vars(module), made)
        class_ = getattr(module, owner)
        patch.setattr(class_, name, made["make"](class_))
