"""What `ehkafka offsets skip` does: looks at what is to be skipped, and plans the commit that skips it.

On the main thread, as `offsets`, which carries the plan out.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from ehkafka import TopicPartition
from ehkafka.cli.lag_text import record_text
from ehkafka.cli.offsets.offsets import carry_out
from ehkafka.errors import ConfigurationError
from ehkafka.offsets.blocking import unverified_properties
from ehkafka.offsets.plan import Plan, planned
from ehkafka.offsets.skipping import Skip, check_skip, skipping

if TYPE_CHECKING:
    from ehkafka.cli.offsets.commands import Applying
    from ehkafka.offsets import GroupOffsets, PartitionView

# As commands write a record, and as the log does: `orders/2@1207`, `orders[2]@1207`.
_PLACE = re.compile(
    r"(?P<topic>[^/\[\]@]+)(?:/(?P<one>\d{1,9})|\[(?P<other>\d{1,9})\])@(?P<first>\d{1,18})(?:-(?P<last>\d{1,18}))?",
    re.ASCII,
)


def parse_skip(text: str) -> Skip:
    """Return what a text names. Raises `ConfigurationError`."""
    named = _PLACE.fullmatch(text)
    if named is None:
        raise ConfigurationError(
            f"{text!r} names no record: give TOPIC/PARTITION@OFFSET, or TOPIC/PARTITION@FROM-TO for all of"
            " these."
        )
    first, last = int(named["first"]), int(named["last"] or named["first"])
    if last < first:
        raise ConfigurationError(f"{text!r} ends before it begins: give the lower offset first.")
    partition = TopicPartition(named["topic"], int(named["one"] or named["other"]))
    return Skip(partition, first, last + 1)


def skip(group: GroupOffsets, asked: Skip, applying: Applying, *, as_json: bool) -> None:
    """Mark the records as finished in the group's commit."""
    number = asked.partition.partition
    with group:
        before, views = group.commits(), group.views()
        check_skip(views.get(number), asked)
        found = _looked_up(group, views[number], asked)
        move = skipping(views[number], before[number][1], found, group.text_bytes_max)
        moves = [move if one.partition == number else one for one in planned(views, {}).moves]
        plan = Plan(tuple(moves))
        carry_out(group, plan, applying, as_json=as_json, headline=group.where, before=before)


def _looked_up(group: GroupOffsets, view: PartitionView, asked: Skip) -> Skip:
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
            "where it ends was not found: there was no time for it, or librdkafka cannot read on behind it."
            f" Give the last of its offsets, too: {asked.partition.topic}/{number}@{offset}-LAST"
        )
    if readable.passed:
        # Of the client's report its code: the rest is a line of its own.
        reason = readable.passed[0][1].partition(" (")[0]
        what = f"what lies up to {readable.offset - 1} cannot be read ({reason})"
        first = group.next_readable(number, committed) if committed < offset else readable
        start = committed if first is not None and first.offset >= offset else offset
        return asked._replace(start=start, end=readable.offset, unreadable=True, note=what)
    if readable.offset > offset:
        is_last = readable.offset >= view.log.end
        then = "No record lies behind it yet" if is_last else f"The next record is {readable.offset}"
        raise asked.refused(f"no record has this offset: a transaction's, or compaction removed it. {then}")
    found = group.records_at({number: offset}).get(number)
    note = f"record {record_text(found, time.time()) or ''}".strip()
    return asked._replace(leader_epoch=found and found.leader_epoch, note=note)
