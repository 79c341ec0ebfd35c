"""`ehkafka dlq`: lists, shows and redrives dead letters.

On the main thread. Results go to stdout, everything else to stderr. What comes from the wire is hostile:
nothing of it reaches a terminal unescaped.
"""

from __future__ import annotations

import heapq
import re
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ehkafka.checks.topic_reader import TopicReader
from ehkafka.cli.command_line import CommandLine
from ehkafka.cli.exits import INTERRUPTED
from ehkafka.cli.lag import age_of
from ehkafka.cli.options import OfEndpoint, Yes, topic_names
from ehkafka.cli.output import columns, cut, notice, put_json, put_text, quiet_pipe, shown
from ehkafka.cli.progress import progress_of
from ehkafka.cli.target import parse_from, target_of
from ehkafka.errors import ConfigurationError
from ehkafka.recovery.letters.letter import Header, LetterFilter, letter_origin
from ehkafka.redrive.redrive import Redrive
from ehkafka.wording import counted
from ehkafka.wording.line import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ehkafka import Record
    from ehkafka.recovery.letters.letter import LetterOrigin
    from ehkafka.redrive.order import RedriveCount

FOLLOWED = "(followed its key)"
TEXT_CHARACTERS_MAX = 100
_PLACE = re.compile(r"(?P<partition>\d{1,9})@(?P<offset>\d{1,18})", re.ASCII)

cli = CommandLine(help="List, show and redrive dead letters.")

Topic = Annotated[
    str, typer.Argument(metavar="TOPIC", help="The topic of the dead letters.", callback=topic_names)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterChoice:
    """Which letters are meant."""

    key: Annotated[str | None, typer.Option(help="Only dead letters with this key.")] = None
    error: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="Only dead letters whose error has this text in its type or message."
        ),
    ] = None
    origin_topic: Annotated[
        str | None,
        typer.Option(
            "--origin-topic",
            metavar="TOPIC",
            help="Only dead letters whose record came from this topic.",
            callback=topic_names,
        ),
    ] = None
    since: Annotated[
        str | None,
        typer.Option(
            metavar="PLACE",
            help="Only dead letters that failed since this time: -10m (10 minutes; s, m, h, d), or a moment.",
        ),
    ] = None

    def chosen(self) -> LetterFilter:
        """Return the filter that they make. Raises `ConfigurationError`."""
        since = self.since
        moment: object = None if since is None else parse_from(since, option="--since")
        if isinstance(moment, timedelta):
            moment = datetime.now(UTC) - moment
        if moment is not None and not isinstance(moment, datetime):
            raise ConfigurationError(
                f"--since {since!r} is not a time: give -10m for the last 10 minutes (s, m, h, d), or a "
                f"moment such as 2026-01-31T12:00:00Z."
            )
        return LetterFilter(key=self.key, error=self.error, origin_topic=self.origin_topic, since=moment)


@cli.command("list")
def list_letters(
    topic: Topic,
    *,
    letters: LetterChoice,
    limit: Annotated[int, typer.Option(min=0, help="The number of newest dead letters to list.")] = 20,
    of: OfEndpoint,
) -> None:
    r"""List the dead letters of a topic: how many of each error, and the newest ones.

    The command joins no group and commits nothing.

    \b
    Examples:
      ehkafka dlq list readings.dead --app shop.readings:app
      ehkafka dlq list readings.dead --endpoint localhost:9092 --since -1h --error timeout
      ehkafka dlq list readings.dead --key home-7 --limit 100 --json

    """
    choose = letters.chosen()
    reader = _reader(topic, of, "earliest")
    groups: Counter[tuple[str, str]] = Counter()
    foreign = 0

    def chosen() -> Iterator[tuple[int, int, int, Record]]:
        nonlocal foreign
        for record in chain.from_iterable(reader.batches()):
            origin = letter_origin(record)
            if origin is None:
                foreign += 1
            elif choose.takes(record, origin):
                groups[origin.partition.topic, origin.error_type or FOLLOWED] += 1
                failed_at_ms = origin.failed_at_ms or record.timestamp()[1]
                yield failed_at_ms, record.offset(), record.partition(), record

    with quiet_pipe(), reader:
        # At least one, or nothing would be read and counted.
        newest = heapq.nlargest(max(1, limit), chosen())
        listing = Listing(groups, [entry[-1] for entry in newest[:limit]], foreign)
        _put(listing_as_dict(listing) if of.as_json else listing_as_text(listing))


@cli.command("show")
def show_letter(
    topic: Topic,
    place: Annotated[str, typer.Argument(metavar="PARTITION@OFFSET", help="The dead letter to show.")],
    *,
    of: OfEndpoint,
) -> None:
    r"""Show one dead letter in full: its origin, its error, its headers and its value.

    Unprintable characters are escaped.

    \b
    Examples:
      ehkafka dlq show readings.dead 3@1207 --app shop.readings:app
      ehkafka dlq show readings.dead 3@1207 --json

    """
    found = _PLACE.fullmatch(place)
    if found is None:
        raise ConfigurationError(
            f"{place!r} is not the place of a dead letter: give PARTITION@OFFSET, such as 3@1207."
        )
    partition, offset = int(found["partition"]), int(found["offset"])
    reader = _reader(topic, of, offset, [partition])
    with quiet_pipe(), reader:
        record = next(chain.from_iterable(reader.batches()), None)
        if record is None or record.offset() != offset:
            raise ConfigurationError(
                f"{topic}[{partition}] has no record at offset {offset}: run ehkafka "
                f"dlq list {topic} to see the dead letters."
            )
        _put(letter_as_dict(record) if of.as_json else letter_as_text(record))


@cli.command("redrive")
def redrive_letters(
    topic: Topic,
    *,
    letters: LetterChoice,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC",
            help="Write the records to this topic instead of their original one.",
            callback=topic_names,
        ),
    ] = None,
    group: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="The group whose commits keep the progress. Default: TOPIC.redrive."
        ),
    ] = "",
    yes: Yes = False,
    of: OfEndpoint,
) -> None:
    r"""Write dead letters back to their original topic and partition.

    Fix the handler first. Without --yes the command only shows a preview. A record gets its key, value and
    headers back. The headers of the dead letter are removed, and the header ehkafka-redriven counts how
    often the record was redriven. The records of one partition are written in the order in which they failed.

    The commits of the group TOPIC.redrive keep the progress. An interrupted redrive continues at its last
    commit, so records of its last second may be written twice. A finished redrive does nothing when started
    again. A dead letter that a filter leaves out is not offered to this group again; another --group can
    redrive it later.

    \b
    Examples:
      ehkafka dlq redrive readings.dead --app shop.readings:app             a preview
      ehkafka dlq redrive readings.dead --app shop.readings:app --yes
      ehkafka dlq redrive readings.dead --error timeout --group timeouts --yes
      ehkafka dlq redrive readings.dead --to readings.retry --yes           another topic

    """
    redrive = Redrive(
        target=target_of(topic, of),
        topic=topic,
        choose=letters.chosen(),
        to=to,
        group=group,
        timeout_s=of.timeout_s,
    )
    planned = redrive.plan()
    done = _redrive(redrive, planned) if yes and planned.seen else planned
    _put(count_as_dict(done, yes=yes) if of.as_json else count_as_text(done, yes=yes))


def _redrive(redrive: Redrive, planned: RedriveCount) -> RedriveCount:
    last: list[RedriveCount] = []
    try:
        with progress_of("Redriving", planned.seen, "dead letters") as move:

            def report(count: RedriveCount) -> None:
                last[:] = [count]
                move(count.seen)

            return redrive.run(report, planned=planned)
    except KeyboardInterrupt:
        if last:
            notice(f"interrupted; {count_as_text(last[0], yes=True)}")
        raise typer.Exit(INTERRUPTED) from None


def _put(found: dict[str, Any] | str) -> None:
    if isinstance(found, str):
        put_text(found)
    else:
        put_json(found, on_one_line=True)


def _reader(topic: str, of: OfEndpoint, begin: Any, partitions: Sequence[int] = ()) -> TopicReader:
    """Return what reads all letters that there are now."""
    return TopicReader(
        target_of(topic, of),
        topic,
        begin=begin,
        partitions=partitions,
        timeout_s=of.timeout_s,
        notice=notice,
        to_end=True,
    )


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
        others = counted(listing.foreign, "other record was", "other records were")
        lines.append(f"{others} not written by an ehkafka app")
    if listing.newest:
        headers = ("PLACE", "AGE", "ORIGIN", "KEY", "ATTEMPTS", "ERROR")
        lines += ["", columns(headers, [_row(record) for record in listing.newest])]
    return "\n".join(lines)


def listing_as_dict(listing: Listing) -> dict[str, Any]:
    """Return one object."""
    groups = [
        {"origin_topic": topic, "error_type": kind, "letters": count}
        for (topic, kind), count in listing.groups.most_common()
    ]
    return {
        "letters": listing.groups.total(),
        "foreign_records": listing.foreign,
        "groups": groups,
        "newest": [_summary(record) for record in listing.newest],
    }


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


def letter_as_dict(record: Record) -> dict[str, Any]:
    """Return one object, nothing cut."""
    headers = [{"name": name, "value": value} for name, value in record.headers()]
    return {**_summary(record), "headers": headers, "value": record.value()}


def count_as_text(count: RedriveCount, *, yes: bool) -> str:
    """Say what was done, or would be."""
    verb = "brought back" if yes else "would be brought back"
    lines = [f"{counted(count.redriven, 'letter')} {verb}"]
    lines += [f"{number:>8}  {printable(str(home))}" for home, number in sorted(count.to.items())]
    if count.passed_over:
        lines.append(
            f"{count.passed_over:>8}  left out by the filter; to redrive these, use another --group later"
        )
    if count.foreign:
        lines.append(f"{count.foreign:>8}  left out, because these records are not dead letters")
    if not yes and count.redriven:
        lines.append("Nothing was written. Add --yes to do it.")
    return "\n".join(lines)


def count_as_dict(count: RedriveCount, *, yes: bool) -> dict[str, Any]:
    """Return one object."""
    to = [{"topic": h.topic, "partition": h.partition, "letters": n} for h, n in sorted(count.to.items())]
    return {
        "dry_run": not yes,
        "redriven": count.redriven,
        "passed_over": count.passed_over,
        "foreign_records": count.foreign,
        "to": to,
    }


def _row(record: Record) -> tuple[object, ...]:
    origin = letter_origin(record)
    assert origin is not None
    raised = _raised(origin)
    error = f"{_cut(origin.error_text)} ({raised})" if raised else _cut(origin.error_text)
    place, key = f"{record.partition()}@{record.offset()}", shown(record.key(), 40)
    return place, _age(record, origin), _origin(origin), key, origin.attempts, error


def _cut(text: str) -> str:
    return cut(text, TEXT_CHARACTERS_MAX)


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
    return age_of(max(0, int(time.time() - (origin.failed_at_ms or record.timestamp()[1]) / 1000)))
