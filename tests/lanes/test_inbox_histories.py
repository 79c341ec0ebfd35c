"""Random histories of the inboxes: order per key, one call at a time, no early commit, nothing lost.

Each guard of the core is taken out once as well; then some history must go wrong.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.lanes import inbox_mutants
from tests.lanes.inbox_world import run_seed
from tests.lanes.slow_start_mutants import PUT_BACK, SLOW_START

if TYPE_CHECKING:
    from tests.kit.mutant import Mutant

SEEDS = int(os.environ.get("EHKAFKA_INBOX_SEEDS", "1000"))
GROUPS = 4
MUTANTS = [*inbox_mutants.MUTANTS, *SLOW_START, *PUT_BACK]


@pytest.mark.parametrize("group", range(GROUPS))
def test_random_histories(group: int) -> None:
    """Consumers, failures, rebalances and commands in any order keep all that is promised."""
    calls = sum(run_seed(seed) for seed in range(group, SEEDS, GROUPS))
    assert calls > SEEDS / GROUPS * 20


def test_without_a_mutant_nothing_is_red() -> None:
    """What shows the absence of a guard apart from histories is green with it."""
    scenarios = {mutant.is_red for mutant in MUTANTS if not isinstance(mutant.is_red, partial)}
    assert not [scenario.__name__ for scenario in scenarios if scenario()]


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_every_guard_is_needed(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without this guard a history goes wrong."""
    mutant.apply(monkeypatch)
    assert mutant.is_noticed(), f"nothing noticed: {mutant.name}"
