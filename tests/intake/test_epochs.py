"""Epochs: the numbers that tell one assignment of a partition from the next."""

from __future__ import annotations

import pytest

from ehkafka.intake.owned import OwnedPartitions
from ehkafka.records import TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_every_assignment_of_a_partition_has_a_new_epoch() -> None:
    """Numbers are never used again, or a late result could pass for a current one; others keep theirs."""
    epochs = OwnedPartitions()
    kept, seen = epochs.begin(P1), []
    for _ in range(3):
        seen.append(epochs.begin(P0))
        with pytest.raises(AssertionError, match="assigned twice"):
            epochs.begin(P0)
        assert [epochs.end(P0), epochs.end(P0)] == [seen[-1], None]  # librdkafka may tell of a loss twice
    assert seen == sorted(set(seen))
    assert epochs.numbers == {P1: kept}
