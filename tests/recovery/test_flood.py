"""The flood gauge: dead letters in a row, and their share of what ended lately."""

from __future__ import annotations

from ehkafka.lanes.inboxes import Inboxes
from ehkafka.records import TopicPartition
from ehkafka.recovery.letters.flood import FloodGauge
from ehkafka.recovery.policy import DeadLetter
from ehkafka.workers.hub import Hub
from tests.kit.inbox_bench import Call
from tests.kit.simulated.message import SimulatedMessage


def test_a_run_ends_with_a_success_and_breaks_its_limit_one_beyond() -> None:
    """As many as allowed are letters, the next one is reported."""
    gauge = FloodGauge(DeadLetter("dead", run_max=3))
    assert [gauge.overflow(0) for _ in range(3)] == [None] * 3
    assert gauge.overflow(1) is None
    assert [gauge.overflow(1) for _ in range(2)] == [None] * 2
    assert gauge.overflow(1) == "4 records in a row failed permanently (run_max=3)"


def test_a_success_that_was_not_noted_yet_counts() -> None:
    """What finishes is not reported; a failure among successes must not seem to follow another."""
    hub = Hub(Inboxes(1), lambda: 0.0)
    with hub.locked() as inboxes:
        epoch = inboxes.assign(TopicPartition("t", 0), 1)
    hub.receive([(epoch, [SimulatedMessage("t", 0, 0, b"k")], [b"k"], (), [1])])
    worker = Call(hub.inboxes.inboxes[0])
    assert worker.start()
    assert hub.count_finished() == 0
    assert not worker.start()
    assert hub.count_finished() == 1


def test_a_share_is_judged_over_the_last_outcomes() -> None:
    """1 % of the last 1000 may fail; one more within them is reported."""
    gauge = FloodGauge(DeadLetter("dead", ratio_max=0.01))
    assert [gauge.overflow(n) for n in range(10)] == [None] * 10
    assert "11 of the last 1000" in str(gauge.overflow(500))
