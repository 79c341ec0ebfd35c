"""Random histories of the sender: nothing lost, each group in order, nothing sent for what has ended.

Each guard of the sender is taken out once as well; then some history must go wrong.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.outputs.sender_mutants import MUTANTS
from tests.outputs.sender_world import run_seed

if TYPE_CHECKING:
    from tests.kit.mutant import Mutant

SEEDS = int(os.environ.get("EHKAFKA_SENDER_SEEDS", "300"))
GROUPS = 4


@pytest.mark.parametrize("group", range(GROUPS))
def test_random_histories(group: int) -> None:
    """Lost answers, refusals, partitions without a leader, ended epochs and stops keep all promises."""
    outputs = sum(run_seed(seed) for seed in range(group, SEEDS, GROUPS))
    assert outputs > SEEDS / GROUPS * 50


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_mutant(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it a history goes wrong, or the test of what histories seldom see."""
    assert mutant.is_noticed(monkeypatch), f"nothing noticed: {mutant.rule}"
