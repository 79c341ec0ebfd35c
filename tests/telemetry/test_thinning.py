from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from ehkafka import events
from ehkafka.records import TopicPartition
from ehkafka.telemetry.thinning import SUBJECTS_MAX, WINDOW_S, Thinning

if TYPE_CHECKING:
    from ehkafka.telemetry.log_lines import LogLines
    from tests.kit.clock import VirtualClock

READINGS_0 = TopicPartition("readings", 0)
READINGS_1 = TopicPartition("readings", 1)
ALERTS_0 = TopicPartition("alerts", 0)


def commit_failed(*partitions: TopicPartition, error: str = "busy", retriable: bool = True) -> events.Event:
    """Return a refused commit."""
    return events.CommitFailed(partitions or (READINGS_0,), error, retriable)


def handler_failed(offset: int, attempt: int, decision: str) -> events.Event:
    """Return a failed attempt."""
    return events.HandlerFailed(READINGS_0, offset, "home-7", attempt, "ValueError: no unit", decision)


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0.0, 1.0, 14.0, WINDOW_S])), max_size=60))
def test_each_warning_is_a_line_or_counted_in_one(steps: list[tuple[int, float]]) -> None:
    """However often it is repeated: each subject has at most one line in a window, and none is lost."""
    thinning, now_s = Thinning(), 0.0
    lines: list[tuple[int, float]] = []
    counted = 0
    for subject, wait_s in steps:
        event = commit_failed(TopicPartition("t", 0), error=chr(97 + subject))
        if (suppressed := thinning.admit(event, now_s)) is not None:
            lines.append((subject, now_s))
            counted += suppressed + 1
        now_s += wait_s
        for owed, others, _ in thinning.owed(now_s):
            assert isinstance(owed, events.CommitFailed)
            lines.append((ord(owed.error) - 97, now_s))
            counted += others + 1
    for subject in range(4):
        times = [at_s for one, at_s in lines if one == subject]
        assert all(later - earlier >= WINDOW_S for earlier, later in pairwise(times))
    counted += sum(others + 1 for _, others, _ in thinning.owed(None))
    assert (counted, thinning.suppressed) == (len(steps), 0)


def test_a_line_says_how_many_were_not_shown(lines: LogLines, logged: Any, clock: VirtualClock) -> None:
    """The first warning of the next window brings it."""
    for _ in range(31):
        lines.write(commit_failed())
        clock.advance(1.0)
    assert logged.suppressed == [0, 29]
    assert "(29 more like it since the last such line.)" in logged.records[1].getMessage()


def test_different_subjects_are_thinned_apart(lines: LogLines, logged: Any) -> None:
    """A warning never hides one about something else."""
    different = [
        commit_failed(READINGS_0),
        commit_failed(ALERTS_0),
        commit_failed(READINGS_0, retriable=False),
        events.PartitionLost(READINGS_0, 3, 0),
        events.PartitionLost(READINGS_1, 3, 0),
        events.StaleResult(READINGS_0, 3, 1),
        events.ConnectionProblem("_TRANSPORT", "down", fatal=False),
        events.ConnectionProblem("_TRANSPORT", "down", fatal=True),
        events.CredentialUnusable("file a", "it is empty", 1),
        events.CredentialUnusable("file a", "it does not exist", 1),
        events.CredentialUnusable("file b", "it is empty", 1),
        events.UserCodeFailed("open", "x"),
        events.UserCodeFailed("on_lost", "x"),
        events.SettingAdvice("metadata.max.age.ms", "200000", "x", "y"),
        events.SettingAdvice("connections.max.idle.ms", "200000", "x", "y"),
    ]
    for event in different * 2:
        lines.write(event)

    assert len(logged.records) == len(different)


def test_other_partitions_and_numbers_in_an_error_are_still_a_repetition(
    lines: LogLines, logged: Any
) -> None:
    """What varies from one commit to the next does not defeat the thinning."""
    lines.write(commit_failed(READINGS_0, error="broker 1, 17 ms"))
    lines.write(commit_failed(READINGS_1, error="broker 2, 23 ms"))

    assert len(logged.records) == 1


def test_the_final_decision_on_a_record_is_always_logged(lines: LogLines, logged: Any) -> None:
    """Its retries are thinned, its end and the failures of other records are not."""
    for attempt in range(1, 5):
        lines.write(handler_failed(17, attempt, f"retry in {0.2 * attempt:.1f} s"))
    lines.write(handler_failed(18, 1, "retry in 0.2 s"))
    lines.write(handler_failed(17, 5, "skip"))

    assert [(vars(record)["offset"], vars(record)["attempt"]) for record in logged.records] == [
        (17, 1),
        (18, 1),
        (17, 5),
    ]


def test_a_line_has_the_time_of_its_event_and_a_summary_says_of_which(lines: LogLines, logged: Any) -> None:
    """However late it is written; what a stop owes stands before the line that the app has stopped."""
    for number in range(4):
        lines.write(events.CommitFailed((READINGS_0,), "busy", retriable=True, at_s=60.0 + number))
    lines.write(events.AppStopped(0, 0, at_s=90.5))

    failed, summary, stopped = logged.records
    assert [record.created for record in logged.records] == [60.0, 90.5, 90.5]
    assert (failed.msecs, stopped.msecs) == (0.0, 500.0)
    assert summary.getMessage().startswith("3 more times from 00:01:01 UTC to 00:01:03 UTC: ")
    assert summary.getMessage().endswith("#the-commit-failed.")
    assert (vars(summary)["first_at_s"], vars(summary)["last_at_s"]) == (61.0, 63.0)
    assert stopped.getMessage().startswith("Stopped")


def test_thinning_remembers_a_bounded_number_of_subjects(lines: LogLines, logged: Any) -> None:
    """A flood of failing records cannot grow it; what a forgotten subject owes is reported first."""
    for _ in range(3):
        lines.write(handler_failed(0, 1, "retry"))
    for offset in range(1, 3 * SUBJECTS_MAX):
        lines.write(handler_failed(offset, 1, "retry"))

    assert len(lines._thinning._windows) <= SUBJECTS_MAX
    assert not lines.owes_lines
    assert len(logged.records) + sum(logged.suppressed) == 3 * SUBJECTS_MAX + 2
