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
    ("ownership", "members", "age_s", "state", "owner"),
    [
        pytest.param(WRITTEN, None, SILENT_S - 1, "owned", "app-1", id="the broker does not tell"),
        pytest.param(WRITTEN, None, SILENT_S + 1, "silent", "app-1", id="heard of no more"),
        pytest.param(
            WRITTEN, [PLAIN], SILENT_S + 1, "silent", "app-1", id="he cannot write, or it is another's"
        ),
        pytest.param(WRITTEN, [PLAIN], 0.0, "owned", "app-1", id="he is a member"),
        pytest.param(WRITTEN, [UNSETTLED], 0.0, "owned", "app-1", id="the group is settling a rebalance"),
        pytest.param(WRITTEN, [], LATE_S - 1, "owned", "app-1", id="his word is fresher than the broker's"),
        pytest.param(WRITTEN, [], LATE_S + 1, "gone", "app-1", id="the group has no members"),
        (RELEASED, None, 0.0, "released", ""),
        (RELEASED, [], 0.0, "released", ""),
        (RELEASED, [PLAIN], 0.0, "owned", "rdkafka (/127.0.0.1)"),
        (None, [PLAIN], 0.0, "owned", "rdkafka (/127.0.0.1)"),
        (None, [], 0.0, "unowned", ""),
        (None, None, 0.0, "unowned", ""),
    ],
)
def test_who_has_a_partition(
    ownership: Ownership | None, members: list[GroupMember] | None, age_s: float, state: str, owner: str
) -> None:
    """An owner's name stays to be seen, but not as that of one once the broker or his silence tells.

    Released or never written: the member that the broker names has it, else none.
    """
    found = row(ownership, members, age_s)
    assert (found.state, found.owner) == (state, owner)


def test_members_of_one_host_are_distinguished_by_their_ids() -> None:
    """Two processes, or two clients of one: the same client id and host, and still two owners."""
    views = {number: PartitionView(number, LogBounds(0, 10), 10) for number in range(2)}
    members = [GroupMember("app", "/10.0.0.1", (number,), f"app-{number}") for number in range(2)]
    rows = owner_rows(views, {}, members, NOW_MS)
    assert [found.owner for found in rows] == ["app-0 (/10.0.0.1)", "app-1 (/10.0.0.1)"]
