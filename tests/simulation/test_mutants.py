"""Mutation check of the pure core: with any one guard removed, something goes red.

A mutant is the source of one function with one guard replaced. A guard that is no longer there fails the
test too: then the mutant is to be written anew, not dropped. Guards of the inboxes themselves are in
`tests/lanes/inbox_mutants.py`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.simulation import seeds
from tests.simulation.mutants import drains, flow, positions, progress, transactions, waiting

if TYPE_CHECKING:
    from tests.kit.mutant import Mutant

ROOMS = (drains, flow, positions, progress, transactions, waiting)
MUTANTS: list[Mutant] = [mutant for room in ROOMS for mutant in room.MUTANTS]
# None is dropped: a guard that moved takes its mutant along.
MUTANTS_MIN = 91


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_every_mutant_is_killed(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """The suite goes red when this guard is missing."""
    mutant.apply(monkeypatch)
    assert mutant.is_noticed(), f"nothing noticed: {mutant.name}"


def test_no_mutant_is_dropped() -> None:
    """There are as many as there were, each under a name of its own."""
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= MUTANTS_MIN


def test_without_a_mutant_nothing_is_red() -> None:
    """What kills a mutant is green on the core as it is."""
    of_seeds = {made for name, made in vars(seeds).items() if name.startswith("a_")}
    scenarios = {mutant.is_red for mutant in MUTANTS if not isinstance(mutant.is_red, partial)} - of_seeds
    assert not [scenario.__name__ for scenario in scenarios if scenario()]
