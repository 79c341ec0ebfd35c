"""Random histories of the inboxes: order per key, one call at a time, no early commit, nothing lost.

`tests/simulation/test_mutants.py` takes each guard of the core out once; then some history must go wrong.
"""

from __future__ import annotations

import os

import pytest

from tests.lanes.inbox_world import run_seed

SEEDS = int(os.environ.get("EHKAFKA_INBOX_SEEDS", "1000"))
GROUPS = 4


@pytest.mark.parametrize("group", range(GROUPS))
def test_random_histories(group: int) -> None:
    """Consumers, failures, rebalances and commands in any order keep all that is promised."""
    calls = sum(run_seed(seed) for seed in range(group, SEEDS, GROUPS))
    assert calls > SEEDS / GROUPS * 20
