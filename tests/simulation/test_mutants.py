"""Mutation check of the pure core: with any one guard removed, something goes red.

A mutant is the source of one function with one guard replaced. A guard that is no longer there fails the
test too: then the mutant is to be written anew, not dropped.
"""

from __future__ import annotations

import pytest

from tests.simulation.mutants import (
    by_hand,
    chunks,
    drains,
    flow,
    lanes,
    late,
    positions,
    progress,
    slices,
    streams,
    transactions,
)
from tests.simulation.mutants.mutant import (
    Mutant,
    a_batch_seed_is_red,
    a_late_seed_is_red,
    a_saving_seed_is_red,
    a_saving_seed_with_chunks_is_red,
    a_saving_seed_with_streams_is_red,
    a_seed_is_red,
    a_stream_seed_is_red,
    a_transaction_seed_is_red,
    a_transaction_seed_with_short_texts_is_red,
    an_express_seed_is_red,
)

ROOMS = (by_hand, chunks, drains, flow, lanes, late, positions, progress, slices, streams, transactions)
MUTANTS: list[Mutant] = [mutant for room in ROOMS for mutant in room.MUTANTS]
SEEDS = {
    a_seed_is_red,
    a_batch_seed_is_red,
    an_express_seed_is_red,
    a_late_seed_is_red,
    a_stream_seed_is_red,
    a_transaction_seed_is_red,
    a_transaction_seed_with_short_texts_is_red,
    a_saving_seed_is_red,
    a_saving_seed_with_chunks_is_red,
    a_saving_seed_with_streams_is_red,
}
# None is dropped: a guard that moved takes its mutant along.
MUTANTS_MIN = 220


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_every_mutant_is_killed(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """The suite goes red when this guard is missing."""
    mutant.apply(monkeypatch)
    assert mutant.is_red(), f"nothing noticed: {mutant.name}"


def test_no_mutant_is_dropped() -> None:
    """There are as many as there were, each under a name of its own."""
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= MUTANTS_MIN


def test_without_a_mutant_nothing_is_red() -> None:
    """What kills a mutant is green on the core as it is."""
    scenarios = {mutant.is_red for mutant in MUTANTS} - SEEDS
    assert not [scenario.__name__ for scenario in scenarios if scenario()]
