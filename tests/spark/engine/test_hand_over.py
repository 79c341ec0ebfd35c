"""Checkpoint against group, as values: what goes on, what is refused, and what the refusal says."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from ehkafka.errors import ConfigurationError, EngineError, HandlerFailedError, OffsetGapError
from ehkafka.progress.metadata import MOVED
from ehkafka.records import TopicPartition
from ehkafka.spark.engine.failures import as_text, failure_of
from ehkafka.spark.engine.group.hand_over import CheckpointState, Whose, check_hand_over
from ehkafka.spark.engine.group.ownership import Commit, Tag
from ehkafka.spark.one_line import as_reported

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
STANDING = CheckpointState({P0: 200, P1: 90}, ({P0: 0, P1: 0}, {P0: 100, P1: 50}, {P0: 200, P1: 90}))
WHOSE = Whose("/c", "g", "ab12")
OURS = Tag("run-1", "ab12").text


def committed(at0: int, at1: int, metadata: str = OURS) -> dict[TopicPartition, Commit]:
    """Return what the group has."""
    return {P0: Commit(at0, metadata), P1: Commit(at1, metadata)}


def test_equal_positions_go_on() -> None:
    """After a graceful stop both say the same, whichever client has committed, and nothing is to be fixed."""
    for metadata in (OURS, "", MOVED, Tag("run-2", "other").text):
        assert check_hand_over(WHOSE, STANDING, committed(200, 90, metadata)) == {}


def test_a_late_commit_of_ours_goes_on_where_the_checkpoint_stands() -> None:
    """A driver that was killed before its last commits leaves the group at an earlier commit of its own."""
    assert check_hand_over(WHOSE, STANDING, committed(100, 90)) == {P0: 200}
    assert check_hand_over(WHOSE, STANDING, committed(0, 17)) == {P0: 200, P1: 90}


def test_a_group_without_commits_goes_on_where_the_checkpoint_stands() -> None:
    """Commits that have expired prove nothing about a consumer."""
    assert check_hand_over(WHOSE, STANDING, {}) == {P0: 200, P1: 90}


def test_a_group_ahead_is_refused_and_both_are_named() -> None:
    """A consumer that ran in between handled records that the checkpoint would handle again."""
    with pytest.raises(ConfigurationError) as refused:
        check_hand_over(WHOSE, STANDING, committed(230, 90, ""))
    text = str(refused.value)
    assert "t[0]: checkpoint 200, group 230" in text
    assert "t[1]" not in text
    assert "consumer has handled records since the checkpoint" in text
    assert "--new-checkpoint" in text


def test_a_run_over_another_checkpoint_is_named() -> None:
    """Spark itself may have moved the group on, from another folder or from none."""
    other = Tag("host-2-bb", "cd34").text
    with pytest.raises(ConfigurationError, match=r"run on Spark \(host-2-bb\) has handled records"):
        check_hand_over(WHOSE, STANDING, committed(230, 95, other))
    with pytest.raises(ConfigurationError, match=r"run on Spark \(host-2-bb\) has moved"):
        check_hand_over(WHOSE, STANDING, committed(100, 90, other))


@pytest.mark.parametrize(
    ("first", "second", "metadata", "group"),
    [(150, 90, "", r"150\)"), *((0, 0, metadata, "0.*") for metadata in (MOVED, "", "of another tool"))],
)
def test_a_rewind_is_refused(first: int, second: int, metadata: str, group: str) -> None:
    """An operator's is never undone silently: inside of a batch, and at the end of one.

    A commit without our tag is no late one, whatever tool has made it and wherever it stands.
    """
    match = rf"t\[0\]: checkpoint 200, group {group}.*another client has moved"
    with pytest.raises(ConfigurationError, match=match):
        check_hand_over(WHOSE, STANDING, committed(first, second, metadata))


def test_where_tags_are_not_kept_the_ends_of_batches_tell() -> None:
    """A broker that does not give our tags back leaves the offsets to compare."""
    whose = replace(WHOSE, keeps_tags=False)
    assert check_hand_over(whose, STANDING, committed(100, 50, "")) == {P0: 200, P1: 90}
    for at, metadata in ((150, ""), (100, MOVED)):
        with pytest.raises(ConfigurationError, match="another client has moved"):
            check_hand_over(whose, STANDING, committed(at, 90, metadata))


def test_a_partition_that_the_checkpoint_does_not_know() -> None:
    """It begins with its log: a commit further on is a consumer's, one at its beginning harms no record."""
    new = TopicPartition("t", 2)
    for harmless in (Commit(0, ""), Commit(40, OURS)):
        assert check_hand_over(WHOSE, STANDING, {**committed(200, 90), new: harmless}) == {}
    with pytest.raises(
        ConfigurationError, match=r"t\[2\]: checkpoint none, group 40\): a consumer has handled"
    ):
        check_hand_over(WHOSE, STANDING, {**committed(200, 90), new: Commit(40, "")})


def test_our_errors_are_found_in_what_spark_says() -> None:
    """A task's error is reported on the driver as itself, in one line; the last one of a traceback counts."""
    reported = as_reported(
        HandlerFailedError("Handler 'h' failed at t[0]@3: ValueError: two\nlines. Fix it.")
    )
    assert "\n" not in str(reported)
    shown = (
        "Job aborted: org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
        "ehkafka.errors.OffsetGapError: the handler's own\n\nThe above exception was the direct cause\n"
        f"ehkafka.errors.HandlerFailedError: {reported}\n\n\tat org.apache.spark.Foo\n"
    )
    found = failure_of(shown)
    assert type(found) is HandlerFailedError
    assert str(found) == str(reported)
    assert type(failure_of("ehkafka.errors.OffsetGapError: gone")) is OffsetGapError


def test_a_handlers_error_tells_its_line() -> None:
    """A traceback stays on the executor, so the line of the user's code goes with the words."""
    error = HandlerFailedError("Handler 'h' failed.")
    try:
        int("x")
    except ValueError as cause:
        error.__cause__ = cause
    found = failure_of(as_text(error))
    assert type(found) is HandlerFailedError
    assert re.fullmatch(rf"Handler 'h' failed\. Raised in {re.escape(__file__)}:\d+ in \w+\.", str(found))


def test_an_error_of_sparks_own_is_reported_as_such() -> None:
    """What is none of ours keeps its text and says where to look."""
    found = failure_of("java.lang.OutOfMemoryError: heap.\n\tat org.apache.spark.Foo\n\t... 32 more\n")
    assert type(found) is EngineError
    assert "OutOfMemoryError: heap. The records" in str(found)
    assert "handled again" in str(found)
    assert "apache" not in str(found)
