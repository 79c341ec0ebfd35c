"""`ehkafka offsets reset` and `skip`: a group moved by hand."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ehkafka import TopicPartition
from ehkafka.checks.topic_reader import LastRecords
from ehkafka.cli.lag import record_text
from ehkafka.cli.offsets.plans import Applying, Moving, carry_out, cli
from ehkafka.cli.options import OfGroup, Topic
from ehkafka.cli.target import group_offsets, parse_places
from ehkafka.errors import ConfigurationError
from ehkafka.offsets.blocking import unverified_properties
from ehkafka.offsets.plan import NO_PARTITION, Plan, planned
from ehkafka.offsets.skipping import SkipRange, check_skip, skipping

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ehkafka.offsets import GroupOffsets, PartitionView

# As commands write a record, and as the log does: `orders/2@1207`, `orders[2]@1207`.
_PLACE = re.compile(
    r"(?P<topic>[^/\[\]@]+)(?:/(?P<one>\d{1,9})|\[(?P<other>\d{1,9})\])@(?P<first>\d{1,18})(?:-(?P<last>\d{1,18}))?",
    re.ASCII,
)


@cli.command("reset")
def reset(
    topic: Topic,
    *,
    to: Annotated[
        list[str],
        typer.Option(
            "--to",
            metavar="PLACE",
            help="The new position: earliest, latest, an offset, -5 (the last 5 records), -10m, or a "
            "moment. 3=PLACE moves only partition 3.",
        ),
    ],
    moving: Moving,
    of: OfGroup,
) -> None:
    r"""Move a group to a time, an offset, or the start or end of the log.

    Stop the group's consumers first. Without --yes the command only shows a preview. The broker refuses to
    move a group that has members, and ehkafka watches for 7 to 65 s (--watch-for) whether a client commits.
    A position outside the log is refused; --clamp takes the nearest end of the log instead. The command
    reads the new commits back and shows them.

    \b
    Examples:
      ehkafka offsets reset readings --group shop --to 2026-01-31T12:00:00Z    a preview
      ehkafka offsets reset readings --group shop --to -10m --yes              10 minutes back
      ehkafka offsets reset readings --group shop --to earliest --partition 3 --yes
      ehkafka offsets reset readings --group shop --to 0=1200 --to 1=latest --yes

    """
    group, only = group_offsets(topic, of), moving.partition or ()
    chosen = parse_places(to, only, option="--to")
    with group:
        views = group.views()
        named = {*only, *(n for n in chosen if n is not None)}
        refused = {n: NO_PARTITION for n in named if n not in views}
        wanted = _wanted(group, views, chosen, only)
        plan = planned(views, wanted, clamp=moving.clamp, refused=refused, anew=True)
        carry_out(group, plan, moving, as_json=of.as_json, headline=group.where)


@cli.command("skip")
def skip(
    place: Annotated[
        str,
        typer.Argument(
            metavar="TOPIC/PARTITION@OFFSET", help="The record to skip; @FROM-TO skips a range of offsets."
        ),
    ],
    *,
    applying: Applying,
    of: OfGroup,
) -> None:
    r"""Skip a record that blocks a group, such as one whose handler never returns.

    Stop the group's consumers first. Without --yes the command only shows a preview. The group's commit then
    lists the record as finished. If the commit waits for this record, it moves to the next unfinished
    record. If a batch cannot be read, name its first offset: the command finds the next readable record.

    \b
    Examples:
      ehkafka offsets skip readings/2@1207 --group shop             a preview
      ehkafka offsets skip readings/2@1207 --group shop --yes
      ehkafka offsets skip readings/2@1207-1219 --group shop --yes  these 13 records

    """
    asked = parse_skip(place)
    group = group_offsets(asked.partition.topic, of)
    number = asked.partition.partition
    with group:
        before, views = group.commits(), group.views()
        check_skip(views.get(number), asked)
        found = _looked_up(group, views[number], asked)
        move = skipping(views[number], before[number][1], found, group.text_bytes_max)
        moves = [move if one.partition == number else one for one in planned(views, {}).moves]
        plan = Plan(tuple(moves))
        carry_out(group, plan, applying, as_json=of.as_json, headline=group.where, before=before)


def _wanted(
    group: GroupOffsets,
    views: Mapping[int, PartitionView],
    places: Mapping[int | None, Any],
    only: Collection[int],
) -> dict[int, int]:
    wanted: dict[int, int] = {}
    for partition, place in places.items():
        others = [n for n in views if n not in places and (not only or n in only)]
        numbers = others if partition is None else [partition] if partition in views else []
        if isinstance(place, LastRecords):
            wanted |= {n: max(views[n].log.start, views[n].log.end - place.count) for n in numbers}
        elif numbers:
            wanted |= group.offsets_at(place, numbers)
    return wanted


def parse_skip(text: str) -> SkipRange:
    """Return what a text names. Raises `ConfigurationError`."""
    named = _PLACE.fullmatch(text)
    if named is None:
        raise ConfigurationError(
            f"{text!r} names no record: give TOPIC/PARTITION@OFFSET, or TOPIC/PARTITION@FROM-TO for "
            "several records."
        )
    first, last = int(named["first"]), int(named["last"] or named["first"])
    if last < first:
        raise ConfigurationError(f"{text!r} ends before it begins: give the lower offset first.")
    partition = TopicPartition(named["topic"], int(named["one"] or named["other"]))
    return SkipRange(partition, first, last + 1)


def _looked_up(group: GroupOffsets, view: PartitionView, asked: SkipRange) -> SkipRange:
    """Return it with what the log says of it. Raises `OffsetGapError` where no record has that offset."""
    number, offset, committed = view.partition, asked.start, view.committed or 0
    if asked.end <= committed:
        return asked
    if asked.end > offset + 1:
        last = group.records_at({number: asked.end - 1}, unverified_properties).get(number)
        return asked._replace(leader_epoch=last and last.leader_epoch)
    readable = group.next_readable(number, offset)
    if readable is None:
        raise asked.refused(
            f"the end of the batch was not found in time, or librdkafka cannot read past it. Give the last "
            f"offset of the batch, too: {asked.partition.topic}/{number}@{offset}-LAST"
        )
    if readable.passed:
        # Of the client's report its code: the rest is a line of its own.
        reason = readable.passed[0][1].partition(" (")[0]
        what = f"the offsets up to {readable.offset - 1} cannot be read ({reason})"
        first = group.next_readable(number, committed) if committed < offset else readable
        start = committed if first is not None and first.offset >= offset else offset
        return asked._replace(start=start, end=readable.offset, unreadable=True, note=what)
    if readable.offset > offset:
        is_last = readable.offset >= view.log.end
        then = "No later record exists yet" if is_last else f"The next record is at offset {readable.offset}"
        why = "the offset belongs to a transaction, or compaction removed the record"
        raise asked.refused(f"no record has this offset: {why}. {then}")
    found = group.records_at({number: offset}).get(number)
    note = f"record {record_text(found, time.time()) or ''}".strip()
    return asked._replace(leader_epoch=found and found.leader_epoch, note=note)
