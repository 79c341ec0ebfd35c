"""How large a gap is, and where each policy goes on."""

from __future__ import annotations

from typing import Any

import pytest

from ehkafka.positions.gap import Gap, LogBounds, go_on_at
from ehkafka.records import TopicPartition

P0 = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("wanted", "earliest", "latest"),
    [
        pytest.param(3, (10, 7), (50, 47), id="deleted"),
        pytest.param(60, (10, 0), (50, 40), id="beyond the end"),
        pytest.param(20, (10, 0), (50, 30), id="truncated and written again"),
    ],
)
def test_the_size_of_a_gap_is_what_is_never_read(
    wanted: int, earliest: tuple[int, int], latest: tuple[int, int]
) -> None:
    """(where it goes on, how many are lost) in a log of 10 to 50; `latest` adds what it skips."""
    gap = Gap(P0, wanted, LogBounds(10, 50))
    assert (gap.log.resume_at("earliest"), gap.lost_records("earliest")) == earliest
    assert (gap.log.resume_at("latest"), gap.lost_records("latest")) == latest
    assert gap.log.resume_at("stop") is None
    assert gap.lost_records("stop") == earliest[1]


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (3, "offset 3, but the log now holds offsets 10 to 50, so 7 records are gone"),
        (60, "offset 60, but the log now holds offsets 10 to 50, so the log ends 10 offsets before that"),
        (20, "offset 20, but the log now holds offsets 10 to 50, and its records have changed"),
    ],
)
def test_the_error_says_what_was_wanted_what_is_there_and_what_to_do(wanted: int, words: str) -> None:
    """Offset, log, distance, and the ways to go on."""
    text = str(Gap(P0, wanted, LogBounds(10, 50)).error("why"))
    assert text.startswith(f"t[0]: the next record to read was at {words}")
    assert "(why)" in text
    assert "on_out_of_range='earliest'" in text


@pytest.mark.parametrize(("action", "lost"), [("earliest", 3), ("latest", 31)])
def test_what_an_earlier_epoch_has_finished_is_not_lost(action: Any, lost: int) -> None:
    """Nor what lies across the beginning of the log; `latest` skips what is finished, too."""
    gap = Gap(P0, 3, LogBounds(10, 50), ((4, 6), (8, 22)))
    assert gap.lost_records(action) == lost
    assert "7 records are gone (4 of them had been finished)" in gap.text()


def test_the_end_of_the_log_is_a_position_to_wait_at() -> None:
    """A consumer that has caught up is not out of range."""
    log = LogBounds(10, 50)
    assert [log.holds(position) for position in (9, 10, 50, 51)] == [False, True, True, False]


def test_the_event_and_the_counter_tell_the_same_size() -> None:
    """What is reported once is counted once."""
    events, counts = list[Any](), list[Any]()
    gap = Gap(P0, 3, LogBounds(10, 50))
    assert go_on_at(gap, "latest", events.append, lambda *count: counts.append(count)) == 50
    (event,) = events
    assert (event.wanted_offset, event.log_start, event.log_end) == (3, 10, 50)
    assert (event.lost_records, event.action, event.resumed_at) == (47, "latest", 50)
    assert counts == [("records_lost", 47)]
