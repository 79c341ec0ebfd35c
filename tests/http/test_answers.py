"""The states of members, as one: whose each entry is, in which order, and how much of it."""

from __future__ import annotations

from typing import Any

import pytest

from ehkafka.http.answers import States, joined
from ehkafka.http.journal import EVENTS_MAX, KINDS_MAX


def state(*ats_s: float, kind: str = "ValueError", stack: str = "") -> dict[str, Any]:
    """Return one with an event, an error and a key at each time."""
    return {
        "events": [
            {"at_s": at, "level": "info", "kind": "K", "sentence": f"at {at}"} for at in reversed(ats_s)
        ],
        "errors": [
            {"kind": kind, "count": len(ats_s), "last_at_s": max(ats_s), "sentence": "s", "stack": stack}
        ]
        if ats_s
        else [],
        "keys": [{"name": f"t/0@{at:g}", "is_blocking": at == 1.0, "age_s": at} for at in ats_s],
    }


def test_without_members_it_is_what_this_process_has() -> None:
    """And no entry names a member: there is none."""
    own = state(1.0, 2.0)
    assert joined(own, []) == {**own, "silent_members": []}


def test_each_entry_names_its_member_and_the_newest_is_first() -> None:
    """The supervisor's own have none; who did not answer is named, with what it answered before."""
    found = joined(
        state(2.0),
        [
            States(1, {}, state(1.0, 4.0), is_silent=False),
            States(2, {}, state(3.0), is_silent=True),
        ],
    )
    whose = [(one["at_s"], one["member"]) for one in found["events"]]
    assert whose == [(4.0, 1), (3.0, 2), (2.0, None), (1.0, 1)]
    assert [(one["member"], one["count"]) for one in found["errors"]] == [(1, 2), (2, 1), (None, 1)]
    assert [(one["name"], one["member"]) for one in found["keys"]] == [
        ("t/0@1", 1),
        ("t/0@4", 1),
        ("t/0@3", 2),
    ]
    assert found["silent_members"] == [2]


def test_two_processes_of_a_member_count_together() -> None:
    """The newer one's words count, and the older one's stack where the newer has none; its keys are gone."""
    its = States(3, state(1.0, 2.0, stack="old"), state(5.0), is_silent=False)
    found = joined(state(), [its])
    [error] = found["errors"]
    assert (error["member"], error["count"], error["last_at_s"], error["stack"]) == (3, 3, 5.0, "old")
    assert [one["name"] for one in found["keys"]] == ["t/0@5"]


@pytest.mark.parametrize("members", [2, 40])
def test_no_more_is_shown_than_one_process_has(members: int) -> None:
    """However many members there are."""
    many = [
        States(number, state(), state(*range(EVENTS_MAX), kind=f"kind {kind}"), is_silent=False)
        for number in range(members)
        for kind in range(KINDS_MAX)
    ]
    found = joined(state(), many)
    assert len(found["events"]) == EVENTS_MAX
    assert len(found["errors"]) == KINDS_MAX
