"""What `ehkafka dlq` does: reads letters and tells of them, and starts a redrive.

On the main thread. Results go to stdout, everything else to stderr.
"""

from __future__ import annotations

import heapq
import re
import sys
from collections import Counter
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ehkafka.checks import TopicReader
from ehkafka.cli.dlq import text as dlq_text
from ehkafka.cli.exits import INTERRUPTED
from ehkafka.cli.tail import notice
from ehkafka.cli.tail_from import parse_from
from ehkafka.cli.unread import quiet_pipe
from ehkafka.errors import ConfigurationError
from ehkafka.recovery.letters.letter import LetterFilter, letter_origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ehkafka import Record
    from ehkafka.checks import Target
    from ehkafka.cli.dlq.commands import Letters
    from ehkafka.redrive.order import RedriveCount
    from ehkafka.redrive.redrive import Redrive

_PLACE = re.compile(r"(?P<partition>\d{1,9})@(?P<offset>\d{1,18})", re.ASCII)


def chosen_letters(letters: Letters) -> LetterFilter:
    """Return the filter that the options make. Raises `ConfigurationError`."""
    since = letters.since
    moment: object = None if since is None else parse_from(since, option="--since")
    if isinstance(moment, timedelta):
        moment = datetime.now(UTC) - moment
    if moment is not None and not isinstance(moment, datetime):
        raise ConfigurationError(
            f"--since {since!r} is not a time; give -10m for the last 10 minutes (s, m, h, d), or a time such"
            " as 2026-01-31T12:00:00Z."
        )
    return LetterFilter(key=letters.key, error=letters.error, origin_topic=letters.origin_topic, since=moment)


def reader_of(target: Target, topic: str, timeout_s: float) -> TopicReader:
    """Return what reads all letters that there are now."""
    return TopicReader(target, topic, begin="earliest", timeout_s=timeout_s, notice=notice, to_end=True)


def list_letters(reader: TopicReader, choose: LetterFilter, *, limit: int, as_json: bool) -> None:
    """Count the letters by topic and error, and print the newest."""
    groups: Counter[tuple[str, str]] = Counter()
    newest: list[tuple[int, int, int, Record]] = []
    foreign = 0
    with quiet_pipe(), reader:
        for batch in reader.batches():
            for record in batch:
                origin = letter_origin(record)
                if origin is None:
                    foreign += 1
                elif choose.takes(record, origin):
                    groups[origin.partition.topic, origin.error_type or dlq_text.FOLLOWED] += 1
                    failed_at_ms = origin.failed_at_ms or record.timestamp()[1]
                    _keep(newest, (failed_at_ms, record.offset(), record.partition(), record), limit)
        listing = dlq_text.Listing(groups, [entry[-1] for entry in sorted(newest, reverse=True)], foreign)
        _print(dlq_text.listing_as_json(listing) if as_json else dlq_text.listing_as_text(listing))


def show_letter(target: Target, topic: str, place: str, *, timeout_s: float, as_json: bool) -> None:
    """Print one letter. Raises `ConfigurationError` where there is none."""
    found = _PLACE.fullmatch(place)
    if found is None:
        raise ConfigurationError(f"{place!r} names no letter; give PARTITION@OFFSET, such as 3@1207.")
    partition, offset = int(found["partition"]), int(found["offset"])
    reader = TopicReader(
        target, topic, begin=offset, partitions=[partition], timeout_s=timeout_s, notice=notice, to_end=True
    )
    with quiet_pipe(), reader:
        record = next((one for batch in reader.batches() for one in batch), None)
        if record is None or record.offset() != offset:
            raise ConfigurationError(f"{topic}[{partition}] has no record at {offset}.")
        _print(dlq_text.letter_as_json(record) if as_json else dlq_text.letter_as_text(record))


def redrive_letters(redrive: Redrive, *, yes: bool, as_json: bool) -> None:
    """Say what a redrive would do, or do it."""
    planned = redrive.plan()
    done = _redrive(redrive, planned) if yes and planned.seen else planned
    _print(dlq_text.count_as_json(done, yes=yes) if as_json else dlq_text.count_as_text(done, yes=yes))


def _redrive(redrive: Redrive, planned: RedriveCount) -> RedriveCount:
    last: list[RedriveCount] = []
    try:
        with _bar(planned.seen) as move:

            def report(count: RedriveCount) -> None:
                last[:] = [count]
                move(count.seen)

            return redrive.run(report, planned=planned)
    except KeyboardInterrupt:
        if last:
            notice(f"interrupted; {dlq_text.count_as_text(last[0], yes=True)}")
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def _bar(total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar on a terminal, else nothing."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("Redriving", total=total)
        yield lambda seen: progress.update(task, completed=seen)


def _keep(
    newest: list[tuple[int, int, int, Record]], entry: tuple[int, int, int, Record], limit: int
) -> None:
    if len(newest) < limit:
        heapq.heappush(newest, entry)
    elif limit:
        heapq.heappushpop(newest, entry)


def _print(text: str) -> None:
    out = sys.stdout.buffer
    out.write(f"{text}\n".encode(sys.stdout.encoding or "utf-8", "backslashreplace"))
