"""Random histories of child processes' inboxes: nothing lost, two at once, swapped or started too late.

Each guard is taken out once as well; then some history must go wrong.
"""

from __future__ import annotations

import os
from functools import partial

import pytest

from ehkafka.workers.processes.inbox import ChildInbox
from tests.kit.mutant import Mutant
from tests.workers.processes.child_world import run_seed

SEEDS = int(os.environ.get("EHKAFKA_INBOX_SEEDS", "1000")) // 4
MUTANT_SEEDS = 100


def goes_wrong() -> bool:
    """Tell whether any of some histories is red."""
    for seed in range(MUTANT_SEEDS):
        try:
            run_seed(seed)
        except (AssertionError, LookupError):
            return True
    return False


of_an_inbox = partial(Mutant, is_red=goes_wrong)

MUTANTS = [
    of_an_inbox(
        "what a child has not started stays with it",
        ChildInbox.take_back,
        "0 if self.claims is None else self.claims.take_back()",
        "0",
    ),
    of_an_inbox("what comes back is in the wrong order", ChildInbox.take_back, "withdrawn.reverse()", "pass"),
    of_an_inbox("what comes back counts as removed", ChildInbox.take_back, "self.log.pop()", "pass"),
    of_an_inbox(
        "a batch's keys are dead but for the last", ChildInbox.take, "self.slack = max(1, len(taken))", ""
    ),
    of_an_inbox("what was taken over ends with its place", ChildInbox.give_up, "if id(one) in gone", "if 0"),
    of_an_inbox(
        "later records of a failed one's key count as finished",
        ChildInbox.behind,
        "one is not None and Router.name_of(one) == name",
        "0",
    ),
]


def test_random_histories() -> None:
    """Children, failures, deaths, rebalances and commands in any order keep all that is promised."""
    calls = sum(run_seed(seed) for seed in range(1000, 1000 + SEEDS))
    assert calls > SEEDS * 20


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_every_guard_is_needed(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without this guard a history goes wrong."""
    mutant.apply(monkeypatch)
    assert goes_wrong(), f"nothing noticed: {mutant.name}"
