"""What is finished above the watermark: exactly what was received and is nowhere."""

from __future__ import annotations

from typing import Any

import pytest

from ehkafka.lanes.finished import FinishedBefore
from ehkafka.records import TopicPartition
from tests.kit.inbox_bench import InboxBench

P0 = TopicPartition("t", 0)


def finished(epoch: Any) -> tuple[tuple[int, int], ...]:
    """Return the ranges above the watermark."""
    extent = epoch.extent()
    assert extent is not None
    found: tuple[tuple[int, int], ...] = extent.finished()
    return found


@pytest.fixture(params=["partition", "handler"])
def bench(request: pytest.FixtureRequest) -> InboxBench:
    """Return a bench with keys of either scope."""
    return InboxBench(request.param)


def test_what_inboxes_hold_is_not_finished(bench: InboxBench) -> None:
    """What runs, what waits, and their followers; the rest is."""
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1 c2 a3 d4 e5")
    for key in "bde":
        bench.finish(bench.call(key))
    bench.call("c")
    assert finished(epoch) == ((1, 2), (4, 6))


def test_holes_in_the_log_join_ranges() -> None:
    """What the log does not hold needs no room of its own."""
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 b10 c20 d30")
    for key in "bd":
        bench.finish(bench.call(key))
    assert finished(epoch) == ((1, 20), (21, 31))


def test_what_a_drain_returned_is_not_finished(bench: InboxBench) -> None:
    """At a revoke, what was given back is nowhere: the last commit must not call it finished."""
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1 c2 d3 e4")
    for key in "bd":
        bench.finish(bench.call(key))
    bench.drain(epoch, below_started=False)
    assert epoch.tally.returned_records == 3
    assert finished(epoch) == ((1, 2), (3, 4))


def test_restored_ranges_stay_until_their_records_were_received() -> None:
    """A second crash before that must not forget them; joined with what this epoch has finished."""
    bench = InboxBench()
    before = FinishedBefore([(1, 4), (6, 9)], leader_epoch=3)
    epoch = bench.assign(finished_before=before)
    epoch.received.next_offset = 0
    extent = epoch.extent()
    assert extent is not None
    assert extent.finished() == ((1, 4), (6, 9))
    assert epoch.received.finished_leader_epoch() == 3
    bench.receive(epoch, "a0 b1 c2", leader_epoch=3)
    assert finished(epoch) == ((1, 4), (6, 9))
    bench.receive(epoch, "d3 e4 f5 g6 h7 i8", leader_epoch=3)
    assert epoch.received.finished_before is None
    assert finished(epoch) == ((1, 4), (6, 9))
    assert epoch.tally.restored_records == 6


def test_a_record_of_a_newer_leader_is_another_one() -> None:
    """The log was cut within the ranges and written anew: what came since runs."""
    bench = InboxBench()
    before = FinishedBefore([(1, 9)], leader_epoch=3)
    epoch = bench.assign(finished_before=before)
    bench.receive(epoch, "a0 b1 c2", leader_epoch=3)
    messages = bench.receive(epoch, "d3 e4", leader_epoch=4)
    assert before.is_refuted(messages)
    assert epoch.received.finished_before is None
    assert epoch.tally.restored_records == 2
    bench.work()
    assert set(bench.started) == {"a0", "d3", "e4"}


def test_ranges_find_their_offsets() -> None:
    """Membership and what lies above an offset."""
    before = FinishedBefore([(2, 4), (7, 8)])
    assert [offset for offset in range(10) if offset in before] == [2, 3, 7]
    assert list(before.above(0)) == [(2, 4), (7, 8)]
    assert list(before.above(3)) == [(3, 4), (7, 8)]
    assert list(before.above(4)) == [(7, 8)]
    assert list(before.above(8)) == []
