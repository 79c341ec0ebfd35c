"""The pace of commits: what the settings ask for, and what Event Hubs takes."""

from __future__ import annotations

from typing import Any

import pytest

from ehkafka.endpoint.properties.limits import COMMIT_IDLE_S, COMMIT_INTERVAL_S_MIN
from ehkafka.progress.ledger import CommitPacing
from ehkafka.progress.pacing import commit_pacing, pace_bound
from ehkafka.settings import Settings

LEAST_S = COMMIT_INTERVAL_S_MIN


@pytest.mark.parametrize(
    ("asked", "is_event_hubs", "pace", "bound"),
    [
        # While it catches up, commits follow the outcomes, unless a pace is asked for.
        ({}, False, CommitPacing(1.0, 100, 0.05, None, early_at_a_share=True), None),
        ({"commit_interval_s": 0.1}, False, CommitPacing(0.1), None),
        ({"commit_every_records": 7}, False, CommitPacing(1.0, 7), None),
        ({"commit_idle_s": 60.0, "commit_interval_s": 1.0}, False, CommitPacing(1.0, idle_s=60.0), None),
        ({"exactly_once": True}, False, CommitPacing(0.1), None),
        # Event Hubs: a distance, and idle positions go again, because the retention of commits is unknown.
        ({}, True, CommitPacing(1.0, None, LEAST_S, COMMIT_IDLE_S), None),
        ({"commit_interval_s": 7.0}, True, CommitPacing(7.0, None, LEAST_S, COMMIT_IDLE_S), None),
        ({"commit_idle_s": 60.0}, True, CommitPacing(1.0, None, LEAST_S, 60.0), None),
        (
            {"commit_interval_s": 0.25},
            True,
            CommitPacing(LEAST_S, None, LEAST_S, COMMIT_IDLE_S),
            "commit_interval_s=0.25",
        ),
        (
            {"commit_every_records": 10},
            True,
            CommitPacing(LEAST_S, 10, LEAST_S, COMMIT_IDLE_S),
            "commit_every_records=10",
        ),
        (
            {"commit_interval_s": 0.5, "commit_every_records": 10},
            True,
            CommitPacing(LEAST_S, 10, LEAST_S, COMMIT_IDLE_S),
            "commit_interval_s=0.5 and commit_every_records=10",
        ),
    ],
)
def test_commits_keep_the_pace_that_is_asked_for_and_that_the_service_takes(
    asked: dict[str, Any], is_event_hubs: bool, pace: CommitPacing, bound: str | None
) -> None:
    """A user who asks for more than the service takes learns what is used instead."""
    settings = Settings(group="g", start="earliest", **asked)
    assert commit_pacing(settings, is_event_hubs=is_event_hubs) == pace
    event = pace_bound(settings, pace)
    words = f"{bound} cannot make commits more frequent: Event Hubs limits the commits of each partition, so "
    words += "the app waits at least 1 s between two commits."
    assert (event is None) if bound is None else (event is not None and words in event.sentence())
