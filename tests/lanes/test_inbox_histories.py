"""Random histories of the inboxes: order per key, one call at a time, no early commit, nothing lost.

Each guard of the core is taken out once as well; then some history must go wrong.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.lanes.inbox_mutants import MUTANTS
from tests.lanes.inbox_world import run_seed

if TYPE_CHECKING:
    from tests.kit.mutant import Mutant

SEEDS = int(os.environ.get("EHKAFKA_INBOX_SEEDS", "240"))
GROUPS = 4


@pytest.mark.parametrize("group", range(GROUPS))
def test_random_histories(group: int) -> None:
    """Consumers, failures, rebalances and commands in any order keep all that is promised."""
    calls = sum(run_seed(seed) for seed in range(group, SEEDS, GROUPS))
    assert calls > SEEDS / GROUPS * 20


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_mutant(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it a history goes wrong, or the test of what histories seldom see."""
    assert mutant.is_noticed(monkeypatch), f"nothing noticed: {mutant.rule}"
