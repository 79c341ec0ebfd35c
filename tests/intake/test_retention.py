"""Retention that comes near to what is not read, or has passed it: when that is reported."""

from __future__ import annotations

from typing import Any

import pytest

from ehkafka.events import RetentionNear, UnreadDeleted
from ehkafka.intake.retention import Retention
from ehkafka.records import TopicPartition

P0 = TopicPartition("t", 0)


def reported(
    starts: list[int], position: int | None, *, every_s: float = 60.0, is_paused: bool = True
) -> Any:
    """Return what is reported where a log begins there, one after another."""
    events: list[Any] = []
    retention = Retention(events.append)
    for number, start in enumerate(starts):
        deleted = max(0, start - (position or start)) if is_paused else 0
        retention.check(P0, start, position, number * every_s, deleted)
    return events


@pytest.mark.parametrize(
    ("starts", "position", "expected"),
    [
        ([0, 0, 0], 900, []),
        ([700, 800], 900, []),
        ([600, 800], 900, [RetentionNear(P0, 900, 800, 200, 30.0)]),
        ([0, 10, 20], 900, []),
        ([0, 100, 200, 300], 10_000, []),
        ([0, 100, 300], 900, [RetentionNear(P0, 900, 300, 200, 240.0)]),
        ([0, 800, 950, 950, 970], 900, [UnreadDeleted(P0, 900, 950, 50), UnreadDeleted(P0, 900, 970, 70)]),
        ([950, 950], 900, [UnreadDeleted(P0, 900, 950, 50)]),
        ([0, 500], None, []),
    ],
    ids=[
        "nothing deleted", "one step that does not reach it", "the next step reaches it", "hours away", "far",
        "two steps are a speed", "passed", "passed before", "it begins with its log",
    ],
)  # fmt: skip
def test_it_is_reported_once_where_the_numbers_say_so(
    starts: list[int], position: int | None, expected: list[Any]
) -> None:
    """Before the loss by the size of a step or by the speed, and each time that something is lost."""
    every_s = 3600.0 if starts == [0, 10, 20] else 60.0
    found = reported(starts, position, every_s=every_s)
    assert [one for one in found if one in expected or isinstance(one, UnreadDeleted)] == expected
    assert len(found) <= len(expected) + any(isinstance(one, UnreadDeleted) for one in expected)


def test_what_the_client_may_hold_is_not_called_deleted() -> None:
    """A partition that is not paused has records in the client's queue that are gone from the log."""
    assert reported([950, 960], 900, is_paused=False) == []
