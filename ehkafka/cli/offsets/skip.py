"""What `ehkafka offsets skip` does: looks at what is to be skipped, and plans the commit that skips it.

On the main thread, as `offsets`, which carries the plan out.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, NamedTuple

from ehkafka.cli.lag_text import record_text
from ehkafka.cli.offsets.offsets import carry_out
from ehkafka.errors import ConfigurationError
from ehkafka.offsets.plan import Move, Plan, planned
from ehkafka.offsets.skipping import Skip, refusal, skipping

if TYPE_CHECKING:
    from ehkafka.cli.offsets.offsets import Acting
    from ehkafka.offsets import GroupOffsets, PartitionView

# As commands write a record, and as the log does: `orders/2@1207`, `orders[2]@1207`.
_PLACE = re.compile(
    r"(?P<topic>[^/\[\]@]+)(?:/(?P<one>\d{1,9})|\[(?P<other>\d{1,9})\])@(?P<first>\d{1,18})(?:-(?P<last>\d{1,18}))?",
    re.ASCII,
)


class Place(NamedTuple):
    """What a person named: a record, or all from `first` to `last`, which is one of them."""

    topic: str
    partition: int
    first: int
    last: int | None = None


def parse_place(text: str) -> Place:
    """Return the place that a text names. Raises `ConfigurationError`."""
    named = _PLACE.fullmatch(text)
    if named is None:
        raise ConfigurationError(
            f"{text!r} names no record: give TOPIC/PARTITION@OFFSET, or TOPIC/PARTITION@FROM-TO for all of"
            " these."
        )
    first, last = int(named["first"]), int(named["last"]) if named["last"] else None
    if last is not None and last < first:
        raise ConfigurationError(f"{text!r} ends before it begins: give the lower offset first.")
    return Place(named["topic"], int(named["one"] or named["other"]), first, last)


def skip(group: GroupOffsets, place: Place, acting: Acting) -> None:
    """Mark the records as finished in the group's commit."""
    with group:
        before, views = group.commits(), group.views()
        view = views.get(place.partition)
        found = _found(group, place, view)
        if view is None or isinstance(found, str):
            log, committed = (None, None) if view is None else (view.log, view.committed)
            move = Move(place.partition, log, committed, None, str(found), is_refused=True)
        else:
            move = skipping(view, before[place.partition][1], found, group.text_bytes_max)
        others = [one for one in planned(views, {}).moves if one.partition != place.partition]
        plan = Plan(tuple(sorted([*others, move], key=lambda one: one.partition)), advice="")
        carry_out(group, plan, acting, headline=group.where, before=before)


def _found(group: GroupOffsets, place: Place, view: PartitionView | None) -> Skip | str:
    """Return what is to be skipped, or why it cannot be."""
    asked = Skip(place.first, (place.first if place.last is None else place.last) + 1)
    why = refusal(view, asked)
    if why or view is None or view.committed is None:
        return why
    if asked.end <= view.committed:
        return asked
    return _record(group, view, place.first) if place.last is None else _range(group, place.partition, asked)


def _range(group: GroupOffsets, partition: int, asked: Skip) -> Skip:
    last = group.records_at({partition: asked.end - 1}).get(partition)
    return asked._replace(leader_epoch=None if last is None else last.leader_epoch)


def _record(group: GroupOffsets, view: PartitionView, offset: int) -> Skip | str:
    """Return what lies at an offset, or why nothing there can be skipped."""
    number, committed = view.partition, view.committed
    assert committed is not None
    readable = group.next_readable(number, offset)
    if readable is None:
        return (
            f"it was not found out in time what lies at {offset}: name all that is to be skipped, {offset}-TO"
        )
    if readable.passed:
        what = f"what lies up to {readable.offset - 1} cannot be read ({readable.passed[0][1]})"
        first = group.next_readable(number, committed) if committed < offset else readable
        is_next = first is not None and first.offset >= offset
        return Skip(committed if is_next else offset, readable.offset, unreadable=True, note=what)
    if readable.offset == offset:
        found = group.records_at({number: offset}).get(number)
        epoch = None if found is None else found.leader_epoch
        return Skip(offset, offset + 1, epoch, note=f"record {record_text(found, time.time()) or ''}".strip())
    is_last = readable.offset >= view.log.end
    then = "No record lies behind it yet" if is_last else f"The next record is {readable.offset}"
    return (
        f"{offset} is no record's offset: a transaction ends there, or compaction removed the record. {then}"
    )
