"""The pace of commits: what the settings ask for, and what Event Hubs takes."""

from __future__ import annotations

from typing import Any

import pytest

from ehkafka.endpoint.properties.limits import COMMIT_IDLE_S, COMMIT_INTERVAL_S_MIN
from ehkafka.events import CommitPaceBounded
from ehkafka.progress.pacing import commit_pacing, pace_bound
from ehkafka.settings import Settings


def settings(**asked: Any) -> Settings:
    """Return an app's settings."""
    return Settings(group="g", start="earliest", **asked)


def test_event_hubs_commits_are_a_second_apart_whatever_is_asked() -> None:
    """Neither a short interval nor a number of records brings commits closer together."""
    pacing = commit_pacing(settings(commit_interval_s=0.1, commit_every_records=5), is_event_hubs=True)
    assert pacing.interval_s == pacing.spacing_s == COMMIT_INTERVAL_S_MIN == 1.0
    assert pacing.every_records == 5


def test_a_longer_interval_stays_as_it_is() -> None:
    """The bound is no default."""
    assert commit_pacing(settings(commit_interval_s=7.0), is_event_hubs=True).interval_s == 7.0


def test_event_hubs_keeps_idle_positions_alive_unless_asked_how_often() -> None:
    """Retention of commits is unknown there, so the idle re-commit has a default."""
    assert commit_pacing(settings(), is_event_hubs=True).idle_s == COMMIT_IDLE_S < 86_400
    assert commit_pacing(settings(commit_idle_s=60.0), is_event_hubs=True).idle_s == 60.0


def test_other_brokers_get_what_is_asked() -> None:
    """Plain Kafka has no such limit."""
    pacing = commit_pacing(settings(commit_interval_s=0.1, commit_every_records=5), is_event_hubs=False)
    assert (pacing.interval_s, pacing.every_records, pacing.spacing_s, pacing.idle_s) == (0.1, 5, 0.0, None)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"commit_interval_s": 0.25}, "commit_interval_s=0.25"),
        ({"commit_every_records": 10}, "commit_every_records=10"),
        (
            {"commit_interval_s": 0.5, "commit_every_records": 10},
            "commit_interval_s=0.5 and commit_every_records=10",
        ),
    ],
)
def test_a_bound_is_reported(asked: dict[str, Any], words: str) -> None:
    """Who asks for more than the service takes learns what is used instead."""
    bound = pace_bound(settings(**asked), commit_pacing(settings(**asked), is_event_hubs=True))
    assert isinstance(bound, CommitPaceBounded)
    sentence = bound.sentence()
    assert (
        f"at least 1 s apart, because Event Hubs limits them for each partition: {words} cannot" in sentence
    )


@pytest.mark.parametrize(
    ("asked", "is_event_hubs", "pace"),
    [
        ({}, False, (1.0, 100, 0.05)),
        ({"commit_interval_s": 1.0}, False, (1.0, None, 0.0)),
        ({"commit_every_records": 7}, False, (1.0, 7, 0.0)),
        ({}, True, (1.0, None, 1.0)),
    ],
    ids=["default", "an interval", "a number of records", "Event Hubs"],
)
def test_while_catching_up_commits_follow_the_outcomes(
    asked: dict[str, Any], is_event_hubs: bool, pace: tuple[float, int | None, float]
) -> None:
    """On Apache Kafka, unless a pace is asked for; Event Hubs' pace stays what it takes."""
    pacing = commit_pacing(settings(**asked), is_event_hubs=is_event_hubs)
    assert (pacing.interval_s, pacing.every_records, pacing.spacing_s) == pace


def test_who_stays_within_the_bound_hears_nothing() -> None:
    """The defaults fit, and elsewhere there is no bound."""
    assert pace_bound(settings(), commit_pacing(settings(), is_event_hubs=True)) is None
    quick = settings(commit_interval_s=0.1)
    assert pace_bound(quick, commit_pacing(quick, is_event_hubs=False)) is None
