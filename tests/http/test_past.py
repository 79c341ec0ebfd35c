"""The last hour in points: rates from counters, gaps where nothing is known, bounded."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ehkafka.events import ActionRefused, ActionTaken, HandlerFailed, StateReport
from ehkafka.http import server, state
from ehkafka.http.journal import EVENTS_MAX, KINDS_MAX, STACKS_MAX, Journal
from ehkafka.http.measures import POINTS_MAX, Past
from ehkafka.records import TopicPartition
from ehkafka.telemetry.snapshot import Snapshot
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

AT = Snapshot.empty("g", "e", "running", 100.0)


def test_rates_are_differences_and_never_negative() -> None:
    """A member that was started again counts from 0; a clock that was set back makes no point."""
    past = Past()
    for at_s, finished in ((0.0, 0), (5.0, 500), (10.0, 100), (9.0, 200), (14.0, 300)):
        past.add(replace(AT, taken_at_s=100.0 + at_s, finished_records=finished))
    shown = past.as_dict()
    assert shown["handled_per_s"] == [100.0, 0.0, 20.0]
    assert shown["at_s"] == [105.0, 110.0, 114.0]


def test_an_unknown_lag_is_a_gap() -> None:
    """And no 0."""
    past = Past()
    for at_s in range(3):
        past.add(replace(AT, taken_at_s=float(at_s), is_cut_off=True))
    assert past.as_dict()["lag_records"] == [None, None]


def test_an_hour_is_kept() -> None:
    """The oldest point goes."""
    past = Past()
    for at_s in range(POINTS_MAX + 10):
        past.add(replace(AT, taken_at_s=float(at_s)))
    assert len(past.as_dict()["at_s"]) == POINTS_MAX


def test_points_are_taken_without_a_request(
    serve: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who opens the page after an hour sees that hour."""
    monkeypatch.setattr(server, "EVERY_S", 0.05)
    monkeypatch.setattr(state, "EVERY_S", 0.05)
    monkeypatch.setattr(state, "FRESH_S", 0.0)
    client = serve()
    times = iter(range(1, 10_000))
    client.served.snapshot = lambda: replace(AT, taken_at_s=float(next(times)))
    wait_until(lambda: len(client.site._state._past.as_dict()["at_s"]) >= 3)


def test_errors_are_counted_by_kind_and_few() -> None:
    """With the last sentence; numbers in it make no new kind."""
    journal = Journal()
    for number in range(3):
        where = (TopicPartition("t", 0), number, "k", 1)
        journal.on_event(HandlerFailed(*where, f"ValueError: no luck with {number}", "its key waits"))
    [one] = journal.errors()
    assert (one["kind"], one["count"]) == ("HandlerFailed: ValueError", 3)
    assert "t[0]@2" in one["sentence"]
    for number in range(KINDS_MAX + 5):
        error = f"{chr(97 + number % 26)}{'x' * (number // 26)}Error: no"
        journal.on_event(HandlerFailed(TopicPartition("t", 0), 1, "k", 1, error, "its key waits"))
    assert len(journal.errors()) == KINDS_MAX


def test_events_are_bounded_and_the_newest_comes_first() -> None:
    """However many there are, and however long their text is."""
    journal = Journal()
    for number in range(EVENTS_MAX + 10):
        journal.on_event(ActionRefused("skip", "key", "x" * 10_000, "me", "unknown", f"no {number}"))
    shown = journal.events()
    assert len(shown) == EVENTS_MAX
    assert f"no {EVENTS_MAX + 9}" in shown[0]["sentence"]
    assert len(shown[0]["sentence"]) <= 2_000


def test_a_record_that_holds_a_commit_has_its_stack() -> None:
    """By the name of the head, and only so many."""
    journal = Journal()
    for offset in range(STACKS_MAX + 3):
        try:
            int("no number")
        except ValueError as error:
            where = (TopicPartition("t", 0), offset, "k", 1)
            what = (*where, "ValueError: no luck", "its key waits")
            journal.on_event(HandlerFailed(*what, exception=error, at_s=10.0 + 2 * offset))
    stacks = journal.stacks()
    assert len(stacks) == STACKS_MAX
    assert "t/0@2" not in stacks
    assert "test_a_record_that_holds_a_commit_has_its_stack" in stacks[f"t/0@{STACKS_MAX + 2}"]


def test_what_a_person_asked_for_is_no_error() -> None:
    """An action and a report are warnings, so that every log shows them; they stand among the events."""
    journal = Journal()
    journal.on_event(ActionTaken("skip", "key", "t/0@1", "me", True, "t/0@1 (key k) skipped."))
    counts = dict.fromkeys(
        ("partitions", "lag_records", "backlog_records", "parked_records", "busy_workers"), 0
    )
    journal.on_event(StateReport(why="SIGUSR1", state="running", lines="", stacks="", **counts))
    assert journal.errors() == []
    assert len(journal.events()) == 2
