"""Letters and redrives as text for eyes and as JSON for programs.

Pure. What comes from the wire is hostile: nothing of it reaches a terminal unescaped.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ehkafka.checks import printable
from ehkafka.cli.columns import columns
from ehkafka.cli.tail_text import in_json, shown
from ehkafka.recovery.letters.letter import ERROR_STACK
from ehkafka.recovery.letters.origin import fate_of
from ehkafka.wording import counted

if TYPE_CHECKING:
    from collections import Counter

    from ehkafka import Record
    from ehkafka.recovery.letters.origin import Fate
    from ehkafka.redrive.order import RedriveCount

FOLLOWED = "(followed its key)"
TEXT_CHARACTERS_MAX = 100


@dataclass(frozen=True, slots=True)
class Listing:
    """What `list` found: counts by (topic, error type), the newest letters first, and what is no letter."""

    groups: Counter[tuple[str, str]]
    newest: list[Record]
    foreign: int


def listing_as_text(listing: Listing) -> str:
    """Return the counts, then one line a letter."""
    lines = [counted(listing.groups.total(), "letter")]
    if rows := [(count, _cut(topic), _cut(kind)) for (topic, kind), count in listing.groups.most_common()]:
        lines += [columns(("LETTERS", "ORIGIN", "ERROR"), rows)]
    if listing.foreign:
        lines.append(f"and {listing.foreign} that no app of ehkafka's wrote")
    if listing.newest:
        headers = ("PLACE", "AGE", "ORIGIN", "KEY", "ATTEMPTS", "ERROR")
        lines += ["", columns(headers, [_row(record) for record in listing.newest])]
    return "\n".join(lines)


def listing_as_json(listing: Listing) -> str:
    """Return one object."""
    groups = [
        {"origin_topic": topic, "error_type": kind, "letters": count}
        for (topic, kind), count in listing.groups.most_common()
    ]
    return _dumped(
        {
            "letters": listing.groups.total(),
            "foreign_records": listing.foreign,
            "groups": groups,
            "newest": [_summary(record) for record in listing.newest],
        }
    )


def letter_as_text(record: Record) -> str:
    """Return a letter whole, one thing a line."""
    fate = fate_of(record)
    lines = [f"place     {record.where}"]
    if fate is None:
        lines.append("origin    not told: this record is no letter of ehkafka's")
    else:
        lines += [
            f"origin    {_origin(fate)}",
            f"key       {shown(record.key(), None)}",
            f"error     {printable(fate.error_text)}",
            f"attempts  {fate.attempts}",
            f"handler   {printable(fate.handler)} of group {printable(fate.group)}",
            f"failed    {_age(record, fate)} ago, redriven {fate.redriven} times before",
        ]
        lines += [f"stack     {printable(line)}" for line in fate.error_stack.splitlines()]
    own = [(name, value) for name, value in record.headers() if fate is None or name != ERROR_STACK]
    lines += [f"header    {shown(name, None)} = {shown(value, None)}" for name, value in own]
    return "\n".join([*lines, f"value     {shown(record.value(), None)}"])


def letter_as_json(record: Record) -> str:
    """Return one object, nothing cut."""
    headers = [{"name": name, "value": value} for name, value in record.headers()]
    return _dumped({**_summary(record), "headers": headers, "value": record.value()})


def count_as_text(count: RedriveCount, *, yes: bool) -> str:
    """Say what was done, or would be."""
    verb = "brought back" if yes else "would be brought back"
    lines = [f"{counted(count.redriven, 'letter')} {verb}"]
    lines += [f"{number:>8}  {printable(str(home))}" for home, number in sorted(count.to.items())]
    if count.passed_over:
        lines.append(
            f"{count.passed_over:>8}  passed over by the filter; with another --group to be had later"
        )
    if count.foreign:
        lines.append(f"{count.foreign:>8}  records that are no letters, passed over")
    if not yes and count.redriven:
        lines.append("Nothing was written. Add --yes to do it.")
    return "\n".join(lines)


def count_as_json(count: RedriveCount, *, yes: bool) -> str:
    """Return one object."""
    to = [{"topic": h.topic, "partition": h.partition, "letters": n} for h, n in sorted(count.to.items())]
    return _dumped(
        {
            "dry_run": not yes,
            "redriven": count.redriven,
            "passed_over": count.passed_over,
            "foreign_records": count.foreign,
            "to": to,
        }
    )


def _row(record: Record) -> tuple[object, ...]:
    fate = fate_of(record)
    assert fate is not None
    raised = _raised(fate)
    error = f"{_cut(fate.error_text)} ({raised})" if raised else _cut(fate.error_text)
    place, key = f"{record.partition()}@{record.offset()}", shown(record.key(), 40)
    return place, _age(record, fate), _origin(fate), key, fate.attempts, error


def _cut(text: str) -> str:
    return f"{text[:TEXT_CHARACTERS_MAX]}…" if len(text) > TEXT_CHARACTERS_MAX else text


def _summary(record: Record) -> dict[str, Any]:
    fate = fate_of(record)
    summary: dict[str, Any] = {
        "topic": record.topic(),
        "partition": record.partition(),
        "offset": record.offset(),
        "key": record.key(),
    }
    if fate is not None:
        summary |= {
            "origin_topic": fate.origin.topic,
            "origin_partition": fate.origin.partition,
            "origin_offset": fate.offset,
            "error_type": fate.error_type,
            "error_text": fate.error_text,
            "error_stack": fate.error_stack or None,
            "attempts": fate.attempts,
            "failed_at_ms": fate.failed_at_ms,
            "handler": fate.handler,
            "group": fate.group,
            "redriven": fate.redriven,
        }
    return summary


def _origin(fate: Fate) -> str:
    origin = f"{_cut(fate.origin.topic)}[{fate.origin.partition}]"
    return f"{printable(origin)}@{'?' if fate.offset is None else fate.offset}"


def _raised(fate: Fate) -> str:
    """Return the line of the user's code that raised the error, cut; empty where the letter does not tell."""
    first = fate.error_stack.partition("\n")[0]
    place = first.removeprefix("at ") if first.startswith("at ") else ""
    return f"…{place[-TEXT_CHARACTERS_MAX:]}" if len(place) > TEXT_CHARACTERS_MAX else place


def _age(record: Record, fate: Fate) -> str:
    seconds = max(0, int(time.time() - (fate.failed_at_ms or record.timestamp()[1]) / 1000))
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def _dumped(fields: dict[str, Any]) -> str:
    return in_json(fields).decode()
