"""Carries a plan out: makes sure that no client consumes, commits, and reads back what is there then.

Three looks tell a live group: its members, where the broker tells them; commits that move while watched; and
the broker's refusal of a commit from outside. The last is proof on Kafka, for members; Event Hubs documents
no such refusal. A consumer that has nothing to read commits nothing: it is not seen by a watch.

A client that lives commits sooner or later, if it has anything to read. How soon, only its settings say; by
default the known ones commit after

- 5 s: librdkafka, Kafka's Java client, franz-go and what is built on them (`auto.commit.interval.ms`);
- 30 s: Kafka Streams (`commit.interval.ms`);
- 60 s: Kafka Connect's sinks (`offset.flush.interval.ms`) and MirrorMaker (`offset.commit.interval.ms`).

The last two are always members of their group, so a broker that tells who is in it leaves the first alone:
a client that was given its partitions is no member.

A redrive joins its group and needs no watch; a run on Spark looks before each of its own commits instead.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ehkafka.errors import EndpointError, GroupInUseError, OffsetGapError
from ehkafka.offsets.members import members_of
from ehkafka.wording import counted, ended, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ehkafka.offsets.group import GroupOffsets
    from ehkafka.offsets.plan import Plan
    from ehkafka.offsets.view import PartitionView

T = TypeVar("T")

NO_MEMBERS_S = 7.0
"""Longer than the 5 s of plain clients: where the broker has said that the group has no members."""
UNREPORTED_S = 65.0
"""Longer than the 60 s of the slowest: where the broker does not say who is in the group."""
CHECK_S = 1.0
MEMBERS_S = 5.0
_NAMED = 3


def move(
    group: GroupOffsets,
    plan: Plan,
    *,
    before: Mapping[int, tuple[int | None, str]] | None = None,
    watch_s: float | None = None,
    report: Callable[[str], object] = lambda _shown: None,
) -> dict[int, PartitionView]:
    """Move a group's offsets and return where it stands then, as read back.

    - `group` (required): the one that the plan was made of, entered.
    - `plan` (required): of `planned`.
    - `before` (default `None`): what `commits()` returned when the plan was made: if one has moved since,
      nothing is moved. None: those of now.
    - `watch_s` (seconds, default `None`): how long commits are watched for a sign of members. None: as long
      as it takes to see any known client's, 7 s or 65 s.
    - `report` (default: does nothing): called with a sentence on how long that is.

    Raises `OffsetGapError` for a plan with refused moves, `GroupInUseError` for a live group, and
    `EndpointError`. Up to the commit nothing has moved.
    """
    if plan.refused:
        raise OffsetGapError(
            f"{group.where}: {ended(plan.refusal())} Nothing was moved. Choose other positions, name only "
            f"the other partitions with --partition, or use --clamp to take the nearest end of the log."
        )
    positions = plan.positions
    if positions:
        is_reported = refuse_members(group, "try again")
        is_event_hubs = group.target.endpoint.is_event_hubs
        watch = Watch.chosen(watch_s, is_reported=is_reported, is_event_hubs=is_event_hubs)
        if watch.seconds:
            report(watch.describe())
        _refuse_moving(group, plan, before or group.commits(), watch.seconds)
        texts = {one.partition: one.text for one in plan.moves if one.text is not None}
        group.commit(positions, texts or None)
    views = group.views()
    _refuse_other(group, positions, views)
    _refuse_unsaid(group, plan, views)
    return views


def refuse_members(group: GroupOffsets, again: str) -> bool:
    """Raise `GroupInUseError` for members; return whether the broker reports that there are none.

    `again` is what a person does once they have ended.
    """
    members = members_of(group.target, group.group, group.topic, min(MEMBERS_S, group.timeout_s))
    if members:
        named = ", ".join(f"{member.id or member.client} on {member.host}" for member in members[:_NAMED])
        more = f" and {len(members) - _NAMED} more" if len(members) > _NAMED else ""
        raise GroupInUseError(
            f"{group.where}: the group has {counted(len(members), 'member')}: {named}{more}. Nothing was "
            f"moved. Stop all consumers of the group, wait until their session has ended, and {again}."
        )
    return members is not None


def _refuse_moving(
    group: GroupOffsets, plan: Plan, before: Mapping[int, tuple[int | None, str]], watch_s: float
) -> None:
    for now in checks(group.commits, watch_s):
        _refuse_moved(group, plan, before, now)


def _refuse_moved(
    group: GroupOffsets,
    plan: Plan,
    before: Mapping[int, tuple[int | None, str]],
    now: Mapping[int, tuple[int | None, str]],
) -> None:
    for one in plan.moves:
        if one.log is None:
            continue
        offset, _ = now[one.partition]
        if offset == one.before and now[one.partition] == before[one.partition]:
            continue
        # Behind a record that is stuck only what is said of those above it moves.
        moved = (
            f"moved from {_shown(one.before)} to {_shown(offset)}" if offset != one.before else "was renewed"
        )
        raise GroupInUseError(
            f"{group.where}: the commit of partition {one.partition} {moved} while it was watched, so"
            " a client is consuming. Nothing was moved. Stop all consumers of the group and try again."
        )


def _refuse_other(group: GroupOffsets, wanted: dict[int, int], views: dict[int, PartitionView]) -> None:
    for partition, offset in wanted.items():
        found = views[partition].committed
        if found != offset:
            raise GroupInUseError(
                f"{group.where}: partition {partition} was moved to {offset}, but {_shown(found)} was read"
                " back: another client commits. Stop all consumers of the group and try again."
            )


def _refuse_unsaid(group: GroupOffsets, plan: Plan, views: dict[int, PartitionView]) -> None:
    for one in plan.moves:
        if one.kept is not None and views[one.partition].finished != one.kept:
            raise EndpointError(
                f"{group.where}: the commit of partition {one.partition} was read back without its list of "
                f"finished records, because this service does not keep the list. The records of the list are "
                f"handled again, also skipped records. Skip a record when the commit has reached it."
            )


def _shown(offset: int | None) -> str:
    return "no commit" if offset is None else str(offset)


class Watch(NamedTuple):
    """For how long to watch, and why."""

    seconds: float
    reason: str

    @classmethod
    def chosen(cls, seconds: float | None, *, is_reported: bool, is_event_hubs: bool) -> Watch:
        """Return the watch that a person asked for, or the one that is long enough.

        `is_reported`: the broker said that the group has no members. What Event Hubs says of groups is
        not documented, so there it does not count.
        """
        if seconds is not None:
            return cls(seconds, "as asked")
        if is_reported and not is_event_hubs:
            return cls(NO_MEMBERS_S, "a client that is no member of its group commits every 5 s by default")
        reported = "Event Hubs may not report" if is_event_hubs else "the broker does not report"
        return cls(UNREPORTED_S, f"{reported} who is in the group, and the slowest clients commit every 60 s")

    def describe(self) -> str:
        """Say it to a person, who may know better."""
        return (
            f"watching for {seconds(self.seconds)} whether a client commits: {ended(self.reason)} "
            "To change this time, set --watch-for: 0 if you know that all consumers of the group have "
            "stopped."
        )


def checks(check: Callable[[], T], seconds: float) -> Iterator[T]:
    """Look again and again, the last time after so long; at least once."""
    left_s = seconds
    while True:
        pause_s = min(CHECK_S, left_s)
        _pause(pause_s)
        left_s -= pause_s
        yield check()
        if left_s <= 0.0:
            return


def _pause(seconds: float) -> None:
    time.sleep(seconds)
