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
from ehkafka.recovery.letters.letter import Header, letter_origin
from ehkafka.wording import counted

if TYPE_CHECKING:
    from collections import Counter

    from ehkafka import Record
    from ehkafka.recovery.letters.letter import LetterOrigin
    from ehkafka.redrive.order import RedriveCount

FOLLOWED = "(followed its key)"
TEXT_CHARACTERS_MAX = 100


@dataclass(frozen=True, slots=True)
class Listing:
    """What `list` found: counts by (topic, error type), the newest letters first, and other records."""

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
    origin = letter_origin(record)
    lines = [f"place     {record.where}"]
    if origin is None:
        lines.append("origin    unknown: this record is not a letter of ehkafka's")
    else:
        lines += [
            f"origin    {_origin(origin)}",
            f"key       {shown(record.key(), None)}",
            f"error     {printable(origin.error_text)}",
            f"attempts  {origin.attempts}",
            f"handler   {printable(origin.handler)} of group {printable(origin.group)}",
            f"failed    {_age(record, origin)} ago, redriven {origin.redriven} times before",
        ]
        lines += [f"stack     {printable(line)}" for line in origin.error_stack.splitlines()]
    own = [(name, value) for name, value in record.headers() if origin is None or name != Header.ERROR_STACK]
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
            f"{count.passed_over:>8}  passed over by the filter; another --group can take them later"
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
    origin = letter_origin(record)
    assert origin is not None
    raised = _raised(origin)
    error = f"{_cut(origin.error_text)} ({raised})" if raised else _cut(origin.error_text)
    place, key = f"{record.partition()}@{record.offset()}", shown(record.key(), 40)
    return place, _age(record, origin), _origin(origin), key, origin.attempts, error


def _cut(text: str) -> str:
    return f"{text[:TEXT_CHARACTERS_MAX]}…" if len(text) > TEXT_CHARACTERS_MAX else text


def _summary(record: Record) -> dict[str, Any]:
    origin = letter_origin(record)
    summary: dict[str, Any] = {
        "topic": record.topic(),
        "partition": record.partition(),
        "offset": record.offset(),
        "key": record.key(),
    }
    if origin is not None:
        summary |= {
            "origin_topic": origin.partition.topic,
            "origin_partition": origin.partition.partition,
            "origin_offset": origin.offset,
            "error_type": origin.error_type,
            "error_text": origin.error_text,
            "error_stack": origin.error_stack or None,
            "attempts": origin.attempts,
            "failed_at_ms": origin.failed_at_ms,
            "handler": origin.handler,
            "group": origin.group,
            "redriven": origin.redriven,
        }
    return summary


def _origin(origin: LetterOrigin) -> str:
    place = f"{_cut(origin.partition.topic)}[{origin.partition.partition}]"
    return f"{printable(place)}@{'?' if origin.offset is None else origin.offset}"


def _raised(origin: LetterOrigin) -> str:
    """Return the line of the user's code that raised the error, cut; empty where the letter does not tell."""
    first = origin.error_stack.partition("\n")[0]
    place = first.removeprefix("at ") if first.startswith("at ") else ""
    return f"…{place[-TEXT_CHARACTERS_MAX:]}" if len(place) > TEXT_CHARACTERS_MAX else place


def _age(record: Record, origin: LetterOrigin) -> str:
    seconds = max(0, int(time.time() - (origin.failed_at_ms or record.timestamp()[1]) / 1000))
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def _dumped(fields: dict[str, Any]) -> str:
    return in_json(fields).decode()
