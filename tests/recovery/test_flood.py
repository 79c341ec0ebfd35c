"""The flood gauge: dead letters in a row, and their share of what ended lately."""

from __future__ import annotations

from ehkafka.recovery.letters.flood import FloodGauge
from ehkafka.recovery.policy import DeadLetter


def test_a_run_ends_with_a_success_and_breaks_its_limit_one_beyond() -> None:
    """As many as allowed are letters, the next one is reported."""
    gauge = FloodGauge(DeadLetter("dead", run_max=3))
    assert [gauge.overflow(0) for _ in range(3)] == [None] * 3
    assert gauge.overflow(1) is None
    assert [gauge.overflow(1) for _ in range(2)] == [None] * 2
    assert gauge.overflow(1) == "4 records in a row failed permanently (run_max=3)"


def test_a_share_is_judged_over_the_last_outcomes() -> None:
    """1 % of the last 1000 may fail; one more within them is reported."""
    gauge = FloodGauge(DeadLetter("dead", ratio_max=0.01))
    assert [gauge.overflow(n) for n in range(10)] == [None] * 10
    assert "11 of the last 1000" in str(gauge.overflow(500))
