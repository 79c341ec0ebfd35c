"""Random histories of the inboxes: order per key, one call at a time, no early commit, nothing lost.

Each guard of the core is taken out once as well; then some history must go wrong.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.lanes.inbox_mutants import MUTANTS, a_batch_loses_records_of_another_partition
from tests.lanes.inbox_world import run_seed

if TYPE_CHECKING:
    from tests.simulation.mutants.mutant import Mutant

SEEDS = int(os.environ.get("EHKAFKA_INBOX_SEEDS", "1000"))
GROUPS = 4


@pytest.mark.parametrize("group", range(GROUPS))
def test_random_histories(group: int) -> None:
    """Consumers, failures, rebalances and commands in any order keep all that is promised."""
    calls = sum(run_seed(seed) for seed in range(group, SEEDS, GROUPS))
    assert calls > SEEDS / GROUPS * 20


def test_a_batch_that_fails_in_an_ended_partition_keeps_the_records_of_others() -> None:
    """What stands behind the failed record in the batch, and is of a partition that stays, is handled."""
    assert not a_batch_loses_records_of_another_partition()


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_every_guard_is_needed(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without this guard a history goes wrong."""
    mutant.apply(monkeypatch)
    assert mutant.is_red(), f"nothing noticed: {mutant.name}"
