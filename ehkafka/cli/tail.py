"""`ehkafka tail`: prints records as they come, until enough have come, Ctrl-C, or stdout's reader has gone.

On the main thread. Joins no group and commits nothing. What a person should know of them goes to stderr, so
that stdout can be piped. A line for eyes has every control character escaped; JSON has, too.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from ehkafka.checks.topic_reader import TopicReader
from ehkafka.cli.command_line import CommandLine
from ehkafka.cli.options import OfEndpoint, Partition, Topic
from ehkafka.cli.output import in_json, notice, quiet_pipe, shown
from ehkafka.cli.target import parse_from, target_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ehkafka import Record

CHARACTERS_MAX = 300
"""A longer value, key or header is cut and its size reported."""

cli = CommandLine()


@cli.command("tail")
def tail(
    topic: Topic,
    *,
    begin: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="PLACE",
            help="Where to begin: earliest, latest, an offset, -5 (the last 5 "
            "of each partition), -10m, or a moment.",
        ),
    ] = "latest",
    partition: Partition = None,
    count: Annotated[
        int | None, typer.Option(min=1, help="Stop after this number of records. Default: at Ctrl-C.")
    ] = None,
    key: Annotated[str | None, typer.Option(help="Show only records with this key or partition key.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Do not cut long values.")] = False,
    of: OfEndpoint,
) -> None:
    r"""Print the records of a topic as they arrive.

    The command joins no group and commits nothing; Ctrl-C stops it. Unprintable characters are escaped.

    \b
    Examples:
      ehkafka tail orders --app shop.orders:app      the endpoint of that app
      ehkafka tail orders --endpoint localhost:9092 --from -10m
      ehkafka tail orders --from -5 --count 20       begin 5 records back in each partition; stop after 20
      ehkafka tail orders --json | jq .value         one JSON object for each record

    """
    reader = TopicReader(
        target_of(topic, of),
        topic,
        begin=parse_from(begin),
        partitions=partition or (),
        timeout_s=of.timeout_s,
        notice=notice,
    )
    write = _writer(as_json=of.as_json, full=full)
    with quiet_pipe(), suppress(KeyboardInterrupt), reader:
        for number, record in enumerate(_of_key(reader.batches(), key), 1):
            write(record)
            if number == count:
                return


def _of_key(batches: Iterable[Iterable[Record]], key: str | None) -> Iterator[Record]:
    # The bytes that were typed, whether they are UTF-8 or not.
    wanted = None if key is None else os.fsencode(key)
    for batch in batches:
        for record in batch:
            if wanted is None or wanted == record.key() or key == record.partition_key:
                yield record
        # What has come is shown now, though stdout may be a pipe.
        sys.stdout.flush()


def _writer(*, as_json: bool, full: bool) -> Callable[[Record], object]:
    out, encoding = sys.stdout.buffer, sys.stdout.encoding or "utf-8"
    if as_json:
        return lambda record: out.write(record_as_json(record) + b"\n")
    if sys.stdout.isatty():
        console = Console(highlight=False, markup=False, soft_wrap=True)
        return lambda record: console.print(as_text(record, full=full))
    return lambda record: out.write(
        f"{as_text(record, full=full).plain}\n".encode(encoding, "backslashreplace")
    )


def as_text(record: Record, *, full: bool = False) -> Text:
    """Return time, partition@offset, key, value and properties in one line."""
    limit = None if full else CHARACTERS_MAX
    time = record.time
    stamp = time.isoformat(timespec="milliseconds").replace("+00:00", "Z") if time else "-"
    text = Text()
    text.append(f"{stamp} ", "dim").append(f"{record.partition()}@{record.offset()} ", "cyan")
    text.append(f"{shown(record.partition_key, limit)} ", "green").append(shown(record.value(), limit))
    if properties := record.properties:
        pairs = (f"{shown(name, limit)}={shown(value, limit)}" for name, value in properties.items())
        text.append(f"  {' '.join(pairs)}", "magenta")
    return text


def record_as_json(record: Record) -> bytes:
    """Return one line; bytes that are no UTF-8 become `{"base64": "…"}`. Nothing is cut."""
    fields: dict[str, Any] = {
        "topic": record.topic(),
        "partition": record.partition(),
        "offset": record.offset(),
        "time": record.time,
        "key": record.key(),
        "partition_key": record.partition_key,
        "value": record.value(),
        "properties": record.properties,
        "system_properties": record.system_properties,
    }
    return in_json(fields)
