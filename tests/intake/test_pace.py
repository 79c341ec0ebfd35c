"""How fast a partition's records end, and what of them is stuck."""

from __future__ import annotations

import pytest

from ehkafka.intake.pace import Counts, PartitionPaces
from ehkafka.records import TopicPartition

P = TopicPartition("t", 0)


@pytest.fixture
def paces() -> PartitionPaces:
    """Nothing was looked at yet."""
    return PartitionPaces()


def test_new_records_are_taken_for_stuck(paces: PartitionPaces) -> None:
    """What waits behind them in the client's queue must not wait until their handlers had time for a few."""
    assert paces.stuck_records(Counts(P, 100, 0), 5.0) == 100
    assert paces.stuck_records(Counts(P, 100, 0), 5.1) == 100


def test_what_ends_within_a_second_is_not_stuck(paces: PartitionPaces) -> None:
    """By how much has ended since the first look."""
    paces.stuck_records(Counts(P, 1_000, 0), 0.0)
    assert paces.stuck_records(Counts(P, 990, 10), 0.02) == 490  # 500 a second
    assert paces.stuck_records(Counts(P, 980, 20), 0.02) == 0


def test_a_partition_that_has_slowed_down_is_known_within_a_second(paces: PartitionPaces) -> None:
    """Only the last looks count, not how fast it once was."""
    gone = 0
    for step in range(8):
        paces.sample([Counts(P, 1_000, gone)], step * 0.25)
        gone += 5_000
    assert paces.stuck_records(Counts(P, 1_000, gone), 2.0) == 0
    for step in range(8, 12):
        paces.sample([Counts(P, 1_000, gone)], step * 0.25)
    assert paces.stuck_records(Counts(P, 1_000, gone), 2.76) == 1_000


@pytest.mark.parametrize("left", [0, 10])
def test_a_partition_that_was_empty_and_a_new_epoch_begin_anew(paces: PartitionPaces, left: int) -> None:
    """What was before says nothing of the records that came now; a new epoch counts from zero."""
    paces.sample([Counts(P, 10, 5_000)], 0.0)
    paces.sample([Counts(P, left, 5_010 if not left else 3)], 0.25)
    assert paces.stuck_records(Counts(P, 300, 5_010 if not left else 3), 0.5) == 300


def test_a_partition_that_is_gone_is_forgotten(paces: PartitionPaces) -> None:
    """Only what is ours is remembered."""
    paces.sample([Counts(TopicPartition("t", n), 1, 0) for n in range(100)], 0.0)
    paces.sample([], 0.25)
    assert not paces._samples


def test_the_pace_of_slow_handlers_is_taken_over_some_of_their_calls(paces: PartitionPaces) -> None:
    """Three records in a second are about three in a second, wherever the looks fall."""
    found = []
    for turn in range(800):
        now_s = turn * 0.005
        gone = int(now_s / 0.3)
        paces.sample([Counts(P, 100, gone)], now_s)
        found.append(paces.stuck_records(Counts(P, 100, gone), now_s))
    assert {*found[300:]} <= {96, 97, 98}
