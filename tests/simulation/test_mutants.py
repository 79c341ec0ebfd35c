"""Mutation check of the pure core: with any one guard removed, something goes red."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.simulation.mutants import MUTANTS

if TYPE_CHECKING:
    from tests.kit.mutant import Mutant

# None is dropped: a guard that moved takes its mutant along.
MUTANTS_MIN = 93


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_mutant(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it a seed, a history or a test goes wrong."""
    assert mutant.is_noticed(monkeypatch), f"nothing noticed: {mutant.rule}"


def test_no_mutant_is_dropped() -> None:
    """There are as many as there were, each under a name of its own."""
    assert len({mutant.rule for mutant in MUTANTS}) == len(MUTANTS) >= MUTANTS_MIN
