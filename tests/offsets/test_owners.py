"""Who has a partition, by what owners wrote and what the broker tells."""

from __future__ import annotations

import pytest

from ehkafka.checkpoints.checkpoint import Ownership
from ehkafka.offsets.members import GroupMember
from ehkafka.offsets.owners import LATE_S, SILENT_S, OwnerRow, owner_rows
from ehkafka.offsets.view import PartitionView
from ehkafka.positions.gap import LogBounds

NOW_MS = 1_800_000_000_000
VIEWS = {0: PartitionView(0, LogBounds(0, 10), 10)}
WRITTEN = Ownership(owner="app-1", epoch=1, at_ms=NOW_MS)
RELEASED = Ownership(owner="app-1", epoch=1, at_ms=NOW_MS, is_released=True)
PLAIN = GroupMember("rdkafka", "/127.0.0.1", (0,))
UNSETTLED = GroupMember("rdkafka", "/127.0.0.1", ())


def row(ownership: Ownership | None, members: list[GroupMember] | None, age_s: float = 0.0) -> OwnerRow:
    """Return the row of a partition whose owner wrote so long ago."""
    written = {} if ownership is None else {0: (ownership, NOW_MS - int(age_s * 1000))}
    (found,) = owner_rows(VIEWS, written, members, NOW_MS)
    return found


@pytest.mark.parametrize(
    ("members", "age_s", "state"),
    [
        pytest.param(None, SILENT_S - 1, "owned", id="the broker does not tell"),
        pytest.param(None, SILENT_S + 1, "silent", id="heard of no more"),
        pytest.param([PLAIN], SILENT_S + 1, "silent", id="he cannot write, or another client has it"),
        pytest.param([PLAIN], 0.0, "owned", id="he is a member"),
        pytest.param([UNSETTLED], 0.0, "owned", id="the group is settling a rebalance"),
        pytest.param([], LATE_S - 1, "owned", id="his word is fresher than the broker's"),
        pytest.param([], LATE_S + 1, "gone", id="the group has no members"),
    ],
)
def test_a_killed_owner_does_not_own_for_ever(
    members: list[GroupMember] | None, age_s: float, state: str
) -> None:
    """His name stays to be seen, but not as that of an owner, once the broker or his silence tells."""
    found = row(WRITTEN, members, age_s)
    assert (found.state, found.owner) == (state, "app-1")


@pytest.mark.parametrize(
    ("ownership", "members", "state", "owner"),
    [
        (RELEASED, None, "released", ""),
        (RELEASED, [], "released", ""),
        (RELEASED, [PLAIN], "owned", "rdkafka (/127.0.0.1)"),
        (None, [PLAIN], "owned", "rdkafka (/127.0.0.1)"),
        (None, [], "unowned", ""),
        (None, None, "unowned", ""),
    ],
)
def test_without_an_owner_s_word_the_broker_s_counts(
    ownership: Ownership | None, members: list[GroupMember] | None, state: str, owner: str
) -> None:
    """Released or never written: the member that the broker names has it, else none."""
    found = row(ownership, members)
    assert (found.state, found.owner) == (state, owner)


def test_members_of_one_host_are_distinguished_by_their_ids() -> None:
    """Two processes, or two clients of one: the same client id and host, and still two owners."""
    views = {number: PartitionView(number, LogBounds(0, 10), 10) for number in range(2)}
    members = [GroupMember("app", "/10.0.0.1", (number,), f"app-{number}") for number in range(2)]
    rows = owner_rows(views, {}, members, NOW_MS)
    assert [found.owner for found in rows] == ["app-0 (/10.0.0.1)", "app-1 (/10.0.0.1)"]
