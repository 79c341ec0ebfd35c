"""Epochs: the numbers that tell one assignment of a partition from the next."""

from __future__ import annotations

import pytest

from ehkafka.intake.owned import OwnedPartitions
from ehkafka.records import TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_every_assignment_of_a_partition_has_a_new_epoch() -> None:
    """Numbers grow and are never used again, or a late result could pass for a current one."""
    epochs = OwnedPartitions()
    seen = []
    for _ in range(3):
        seen.append(epochs.begin(P0))
        assert epochs.end(P0) == seen[-1]
    assert seen == sorted(set(seen))


def test_a_retained_partition_keeps_its_epoch() -> None:
    """What happens to other partitions changes nothing."""
    epochs = OwnedPartitions()
    kept = epochs.begin(P0)
    epochs.begin(P1)
    epochs.end(P1)
    assert epochs.numbers == {P0: kept}


def test_the_end_of_a_partition_that_is_not_ours_is_no_error() -> None:
    """Librdkafka may tell of a loss twice."""
    epochs = OwnedPartitions()
    assert epochs.end(P0) is None
    epochs.begin(P0)
    epochs.end(P0)
    assert epochs.end(P0) is None
    assert epochs.numbers == {}


def test_a_partition_cannot_begin_twice() -> None:
    """An assign without a revoke in between is refused."""
    epochs = OwnedPartitions()
    epochs.begin(P0)
    with pytest.raises(AssertionError, match="assigned twice"):
        epochs.begin(P0)
