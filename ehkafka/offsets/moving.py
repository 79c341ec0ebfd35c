"""Carries a plan out: makes sure that nobody consumes, commits, and reads back what is there then.

Three looks tell a live group: its members, where the broker tells them; commits that move while watched; and
the broker's refusal of a commit from outside. The last is proof on Kafka; on Event Hubs nobody states it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ehkafka.errors import GroupInUseError, OffsetGapError
from ehkafka.offsets.members import members_of

if TYPE_CHECKING:
    from ehkafka.offsets.group import GroupOffsets
    from ehkafka.offsets.plan import Plan
    from ehkafka.offsets.view import PartitionView

WATCH_S = 3.0
"""How long commits are watched before they are moved: ehkafka and most others commit once a second."""
MEMBERS_S = 5.0
_NAMED = 3


def move(
    group: GroupOffsets,
    plan: Plan,
    *,
    watch_s: float = WATCH_S,
) -> dict[int, PartitionView]:
    """Move a group's offsets and return where it stands then, as read back.

    Raises `OffsetGapError` for a plan with refused moves, `GroupInUseError` for a live group, and
    `EndpointError`. Up to the commit nothing has moved.
    """
    if plan.refused:
        raise OffsetGapError(
            f"{group.where}: {plan.refusal()}. Nothing was moved. Choose other positions, leave these"
            " partitions out with --partition, or take the nearest end of the log with --clamp."
        )
    positions = plan.positions
    if positions:
        _refuse_members(group)
        _refuse_moving(group, plan, watch_s)
        group.commit(positions)
    views = group.views()
    _refuse_other(group, positions, views)
    return views


def _refuse_members(group: GroupOffsets) -> None:
    members = members_of(group.target, group.group, group.topic, min(MEMBERS_S, group.timeout_s))
    if members:
        named = ", ".join(f"{member.client} on {member.host}" for member in members[:_NAMED])
        more = f" and {len(members) - _NAMED} more" if len(members) > _NAMED else ""
        count = "a member" if len(members) == 1 else f"{len(members)} members"
        raise GroupInUseError(
            f"{group.where}: the group has {count}: {named}{more}. Nothing was moved."
            " Stop them, wait until their session has ended, and try again."
        )


def _refuse_moving(group: GroupOffsets, plan: Plan, watch_s: float) -> None:
    before = group.commits()
    _watch(watch_s)
    now = group.commits()
    for one in plan.moves:
        if one.log is None:
            continue
        offset, _ = now[one.partition]
        if offset == one.before and now[one.partition] == before[one.partition]:
            continue
        # Behind a record that is stuck only what is said of those above it moves.
        moved = (
            f"moved from {_said(one.before)} to {_said(offset)}" if offset != one.before else "was renewed"
        )
        raise GroupInUseError(
            f"{group.where}: the commit of partition {one.partition} {moved} while it was watched, so"
            " somebody consumes. Nothing was moved. Stop all consumers of the group and try again."
        )


def _watch(seconds: float) -> None:
    time.sleep(seconds)


def _refuse_other(group: GroupOffsets, wanted: dict[int, int], views: dict[int, PartitionView]) -> None:
    for partition, offset in wanted.items():
        found = views[partition].committed
        if found != offset:
            raise GroupInUseError(
                f"{group.where}: partition {partition} was moved to {offset}, but {_said(found)} was read"
                " back: somebody else commits. Stop all consumers of the group and try again."
            )


def _said(offset: int | None) -> str:
    return "no commit" if offset is None else str(offset)
