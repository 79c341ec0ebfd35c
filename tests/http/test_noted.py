"""What members have noted, as one: whose each entry is, in which order, and how much of it."""

from __future__ import annotations

from typing import Any

import pytest

from ehkafka.http.journal import EVENTS_MAX, KINDS_MAX, REBALANCES_MAX
from ehkafka.http.noted import Noted, joined


def journal(*ats_s: float, kind: str = "ValueError", stack: str = "", **stacks: str) -> dict[str, Any]:
    """Return one with an event, a rebalance and an error at each time."""
    return {
        "events": [
            {"at_s": at, "level": "info", "kind": "K", "sentence": f"at {at}"} for at in reversed(ats_s)
        ],
        "rebalances": [{"at_s": at, "sentence": f"moved at {at}"} for at in reversed(ats_s)],
        "errors": [
            {"kind": kind, "count": len(ats_s), "last_at_s": max(ats_s), "sentence": "s", "stack": stack}
        ]
        if ats_s
        else [],
        "stacks": stacks,
    }


def test_without_members_it_is_what_this_process_has() -> None:
    """And no entry names a member: there is none."""
    own = journal(1.0, 2.0)
    found = joined(own, [])
    assert found == {**own, "silent": []}
    assert "member" not in found["events"][0]


def test_each_entry_names_its_member_and_the_newest_is_first() -> None:
    """The supervisor's own have none; who did not answer is named, with what it noted before."""
    found = joined(
        journal(2.0), [Noted(1, (journal(1.0, 4.0),), is_silent=False), Noted(2, (journal(3.0),), True)]
    )
    whose = [(one["at_s"], one["member"]) for one in found["events"]]
    assert whose == [(4.0, 1), (3.0, 2), (2.0, None), (1.0, 1)]
    assert [one["member"] for one in found["rebalances"]] == [1, 2, None, 1]
    assert [(one["member"], one["count"]) for one in found["errors"]] == [(1, 2), (2, 1), (None, 1)]
    assert found["silent"] == [2]


def test_two_processes_of_a_member_count_together() -> None:
    """The newer one's words count, and the older one's stack where the newer has none."""
    before, now = journal(1.0, 2.0, stack="old", a="x", b="y"), journal(5.0, a="z")
    [error] = joined(journal(), [Noted(3, (before, now), is_silent=False)])["errors"]
    assert (error["member"], error["count"], error["last_at_s"], error["stack"]) == (3, 3, 5.0, "old")
    found = joined(journal(), [Noted(3, (before, now), is_silent=False)])
    assert found["stacks"] == {"a": "z", "b": "y"}


@pytest.mark.parametrize("members", [2, 40])
def test_no_more_is_shown_than_one_process_has(members: int) -> None:
    """However many members there are."""
    many = [
        Noted(
            number,
            tuple(journal(*range(EVENTS_MAX), kind=f"kind {n}") for n in range(KINDS_MAX)),
            is_silent=False,
        )
        for number in range(members)
    ]
    found = joined(journal(), many)
    assert len(found["events"]) == EVENTS_MAX
    assert len(found["rebalances"]) == REBALANCES_MAX
    assert len(found["errors"]) == KINDS_MAX
