"""How fast a partition's records end, and what of them is stuck."""

from __future__ import annotations

from ehkafka.intake.pace import Counts, PartitionPaces
from ehkafka.records import TopicPartition

P = TopicPartition("t", 0)


def test_of_new_records_nobody_knows_until_their_handlers_had_time_for_a_few() -> None:
    """Four calls, but between 10 ms and a second."""
    for mean_s, patience_s in ((0.0, 0.01), (0.001, 0.01), (0.01, 0.04), (9.0, 1.0)):
        paces = PartitionPaces()
        assert paces.stuck_records(Counts(P, 100, 0), mean_s, 5.0) is None
        assert paces.stuck_records(Counts(P, 100, 0), mean_s, 5.0 + patience_s * 0.9) is None
        assert paces.stuck_records(Counts(P, 100, 0), mean_s, 5.0 + patience_s * 1.1) == 100


def test_what_ends_within_a_second_is_not_stuck() -> None:
    """By how much has ended since the first look."""
    paces = PartitionPaces()
    assert paces.stuck_records(Counts(P, 1_000, 0), 0.0, 0.0) is None
    assert paces.stuck_records(Counts(P, 990, 10), 0.0, 0.02) == 490  # 500 a second
    assert paces.stuck_records(Counts(P, 980, 20), 0.0, 0.02) == 0


def test_a_partition_that_has_slowed_down_is_known_within_half_a_second() -> None:
    """Only the last two samples count, not how fast it once was."""
    paces = PartitionPaces()
    gone = 0
    for step in range(8):
        paces.sample([Counts(P, 1_000, gone)], step * 0.25)
        gone += 5_000
    assert paces.stuck_records(Counts(P, 1_000, gone), 0.0, 2.0) == 0
    for step in range(8, 11):
        paces.sample([Counts(P, 1_000, gone)], step * 0.25)
    assert paces.stuck_records(Counts(P, 1_000, gone), 0.0, 2.51) == 1_000


def test_a_partition_that_was_empty_begins_anew() -> None:
    """What it did before its line was empty says nothing of the records that came now."""
    paces = PartitionPaces()
    paces.sample([Counts(P, 10, 0)], 0.0)
    paces.sample([Counts(P, 0, 10)], 0.25)
    assert paces.stuck_records(Counts(P, 0, 10), 0.0, 0.3) == 0
    assert paces.stuck_records(Counts(P, 300, 10), 0.0, 0.3) is None


def test_a_new_epoch_counts_from_zero() -> None:
    """Its counts are lower than those of the epoch before; that is no pace."""
    paces = PartitionPaces()
    paces.sample([Counts(P, 10, 5_000)], 0.0)
    paces.sample([Counts(P, 10, 3)], 0.25)
    assert paces.stuck_records(Counts(P, 10, 3), 0.0, 0.255) is None
    assert paces.stuck_records(Counts(P, 10, 3), 0.0, 0.5) == 10


def test_a_partition_that_is_gone_is_forgotten() -> None:
    """Only what is ours is remembered."""
    paces = PartitionPaces()
    paces.sample([Counts(TopicPartition("t", n), 1, 0) for n in range(100)], 0.0)
    paces.sample([], 0.25)
    assert not paces._samples


def test_a_partition_of_slow_handlers_is_judged_too_although_samples_are_taken_all_the_while() -> None:
    """Four calls of theirs are longer than two samples: the look back reaches as far as the patience does."""
    for mean_s in (0.12, 0.15, 0.5, 9.0):
        paces = PartitionPaces()
        judged: list[int] = []
        for turn in range(600):
            now_s = turn * 0.005
            paces.sample([Counts(P, 100, 0)], now_s)
            found = paces.stuck_records(Counts(P, 100, 0), mean_s, now_s)
            assert found is None or now_s >= min(1.0, 4 * mean_s)
            judged += [] if found is None else [turn]
        assert judged == list(range(judged[0], 600)), "known once, known from there on"
        assert judged[0] * 0.005 <= 1.1


def test_the_pace_of_slow_handlers_is_taken_over_a_few_of_their_calls() -> None:
    """Three records in a second are three in a second, wherever the samples fall."""
    paces = PartitionPaces()
    found = []
    for turn in range(800):
        now_s = turn * 0.005
        gone = int(now_s / 0.3)
        paces.sample([Counts(P, 100, gone)], now_s)
        found.append(paces.stuck_records(Counts(P, 100, gone), 0.3, now_s))
    assert {*found[300:]} <= {96, 97, 98}
