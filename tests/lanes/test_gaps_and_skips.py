"""What is not in the log any more, and what is too old to be handled: the watermark passes both."""

from __future__ import annotations

import pytest

from tests.kit.inbox_bench import InboxBench


def test_the_watermark_passes_a_gap_once_what_lies_before_it_is_done() -> None:
    """A gap is a hole: unfinished records hold the watermark, then it is at the gap's end."""
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a3 b4")
    epoch.received.skip_to(10, 0.0)
    assert epoch.watermark() == 3
    bench.work()
    assert epoch.watermark() == 10
    bench.receive(epoch, "a10 b11")
    bench.work()
    assert epoch.watermark() == 12
    assert bench.is_empty()


def test_a_gap_before_the_first_record_is_a_position_to_commit() -> None:
    """Nothing was received yet, and the end of the gap is committed all the same."""
    bench = InboxBench()
    epoch = bench.assign()
    assert epoch.watermark() is None
    epoch.received.skip_to(10, 0.0)
    assert epoch.watermark() == 10


def test_a_commit_at_the_end_of_a_gap_carries_no_leader_epoch() -> None:
    """Nothing is known of the record before it; the records around keep their own epochs."""
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a3", leader_epoch=5)
    epoch.received.skip_to(10, 0.0)
    bench.receive(epoch, "a10", leader_epoch=6)
    epochs = {offset: epoch.received.batches.at(offset).leader_epoch for offset in (3, 9, 10)}  # type: ignore[union-attr]
    assert epochs == {3: 5, 9: None, 10: 6}


def test_a_position_never_jumps_back_within_an_epoch() -> None:
    """Offsets that come twice would let the watermark pass them the first time."""
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a3")
    with pytest.raises(AssertionError):
        epoch.received.skip_to(3, 0.0)


@pytest.mark.parametrize("scope", ["partition", "handler"])
@pytest.mark.parametrize("skipped", [{0, 1}, {1, 3}, {2, 3}, {0, 1, 2, 3}])
def test_what_is_skipped_on_arrival_never_starts_and_is_passed(scope: str, skipped: set[int]) -> None:
    """The others run in order; the watermark ends behind the last one, whichever kind that is."""
    bench = InboxBench(scope)  # type: ignore[arg-type]
    epoch = bench.assign()
    bench.receive(epoch, "a0 a1 b2 a3", skipped=skipped)
    assert (epoch.tally.received_records, epoch.tally.skipped_records) == (4, len(skipped))
    assert bench.inboxes.tally.backlog_records == epoch.tally.backlog_records == 4 - len(skipped)
    assert epoch.watermark() == min({0, 1, 2, 3, 4} - skipped)
    bench.work()
    assert sorted(bench.started, key=lambda text: text[1:]) == [
        text for text in ("a0", "a1", "b2", "a3") if int(text[1:]) not in skipped
    ]
    assert epoch.watermark() == 4
    assert bench.is_empty()
    assert bench.inboxes.tally.skipped_records == len(skipped)
