"""`ehkafka export`: copies a range of a topic into files, with a bar on a terminal.

On the main thread. Joins no group and commits nothing. Results go to stdout, everything else to stderr.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.filesize import decimal

from ehkafka.arrow.options import OF_A_READ, ReadOptions
from ehkafka.arrow.reading import columns_of, opened, partitions_of
from ehkafka.checks.topic_reader import LastRecords
from ehkafka.cli.command_line import CommandLine
from ehkafka.cli.exits import INTERRUPTED, ended_by_signals, interrupt
from ehkafka.cli.export.target import ExportTarget, FoldersBy
from ehkafka.cli.options import OfEndpoint, Partition, Topic
from ehkafka.cli.output import notice, put_json, put_text
from ehkafka.cli.progress import progress_of
from ehkafka.cli.target import parse_places, target_of
from ehkafka.errors import ConfigurationError, EhkafkaError
from ehkafka.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ehkafka.arrow import Reader

SAMPLE_RECORDS: Final = 200
"""Records of each partition that a dry run reads for their size."""
# So many times `timeout_s` records may be late: a partition may get another leader meanwhile.
_PATIENCE: Final = 12
# What chooses the folder of a record.
_COLUMN_OF = {FoldersBy.DAY: "timestamp", FoldersBy.PARTITION: "partition"}

# What a person can do who reads a topic by this command.
OF_AN_EXPORT = OF_A_READ._replace(
    client="ehkafka-export",
    reader="The export",
    knows="--from names",
    allowed="--on-loss warn",
    records="To continue without them, add --on-loss warn; to begin elsewhere, give another --from.",
    partitions="To continue without them, add --on-loss warn.",
    logs="To read the new log, add --on-loss warn; to begin elsewhere, give another --from.",
    slow="If the broker is only slow, raise --timeout.",
    broken="If the batch stays broken, end before it with --until, or begin after it with --from.",
    unnamed="name every partition, or choose those to read by --partition.",
)

cli = CommandLine()


class OnLoss(enum.StrEnum):
    """What `--on-loss` takes."""

    RAISE = "raise"
    WARN = "warn"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRange:
    """Which records are meant."""

    begin: Annotated[
        list[str],
        typer.Option(
            "--from",
            "--since",
            metavar="PLACE",
            help="Where to begin: earliest, an offset, -10m, '1 hour ago', or a moment. 3=OFFSET is for "
            "partition 3 only.",
        ),
    ]
    until: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PLACE",
            help="Where to end; the record at this position is not written. "
            "Default: the current end of the log.",
        ),
    ] = None
    partition: Partition = None
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="The columns to write, such as key,value,headers. Default: all except headers.",
        ),
    ] = None
    on_loss: Annotated[
        OnLoss,
        typer.Option(
            "--on-loss",
            help="If the log has lost records of the range: raise stops with code 3, warn continues.",
        ),
    ] = OnLoss.RAISE

    @property
    def names(self) -> list[str] | None:
        """The columns that are wanted; None for all but headers."""
        return None if self.columns is None else [name.strip() for name in self.columns.split(",")]

    def reading(self, topic: str, of: OfEndpoint, by: FoldersBy | None) -> tuple[ReadOptions, Any, Any]:
        """Return what is read, from where and to where. Raises `ConfigurationError`."""
        start, end = self._place("--from", self.begin), self._place("--until", self.until or ["latest"])
        named = {number for place in (start, end) if isinstance(place, dict) for number in place}
        names = self.names
        if names is not None and by and _COLUMN_OF[by] not in [name.lower() for name in names]:
            names = [*names, _COLUMN_OF[by]]
        columns = columns_of(names)
        if by is FoldersBy.PARTITION and columns == ("partition",):
            raise ConfigurationError(
                "--columns leaves no column to write, because --by partition puts the partition into the "
                "names of the folders. Add a column, such as offset."
            )
        options = ReadOptions(
            endpoint=target_of(topic, of).endpoint,
            topic=topic,
            columns=columns,
            assigned=partitions_of(topic, self.partition or named or None),
            header_values="raw",
            fail_on_data_loss=self.on_loss is OnLoss.RAISE,
            timeout_s=_PATIENCE * of.timeout_s,
            words=OF_AN_EXPORT,
        )
        return options, start, end

    def _place(self, option: str, texts: Sequence[str]) -> Any:
        """Return one place for all partitions, or places by partition."""
        places = parse_places(texts, self.partition or (), option=option)
        is_mixed = None in places and len(places) > 1
        is_time = None not in places and any(isinstance(one, datetime | timedelta) for one in places.values())
        if is_mixed or is_time or any(isinstance(place, LastRecords) for place in places.values()):
            raise ConfigurationError(
                f"{option} takes one place for all partitions (but not the form -N), or N=OFFSET for each "
                f"partition to read: change {option}."
            )
        return places.get(None, places)


@cli.command("export")
def export_topic(
    topic: Topic,
    *,
    records: TopicRange,
    target: ExportTarget,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only estimate how many records and bytes the file would have.")
    ] = False,
    of: OfEndpoint,
) -> int:
    r"""Write a range of a topic into Parquet, NDJSON or Arrow files.

    The command joins no group and commits nothing. A file gets its name only when it is complete: after
    Ctrl-C, SIGTERM, an error or a full disk no file is left. With --by it writes a folder in Hive's form,
    such as day=2026-01-31/part-0.parquet, which Polars, DuckDB and Spark read as one table. It needs the
    extra [arrow].

    \b
    Examples:
      ehkafka export orders --since '1 hour ago' --to orders.parquet
      ehkafka export orders --from earliest --until -10m --to orders.ndjson
      ehkafka export orders --from 0=1200 --from 3=900 --to some.arrow    two partitions, from these offsets
      ehkafka export orders --from -7d --by day --to orders --dry-run     only estimate its size

    """
    target.check()
    options, start, end = records.reading(topic, of, target.by)
    try:
        with ended_by_signals(interrupt), opened(options, start, end) as reader:
            found = _plan(options, reader) if dry_run else _copied(reader, target, records.names)
    except KeyboardInterrupt:
        notice(f"interrupted: the file {target.to} was not written.")
        return INTERRUPTED
    if of.as_json:
        put_json({"topic": topic, "to": target.to, "dry_run": dry_run, **found}, on_one_line=True)
        return 0
    count, size = counted(found["records"], "record"), decimal(found["bytes"])
    put_text(
        f"{target.to} would have up to {count} and about {size} before compression. The estimate uses the "
        f"mean size of the first {SAMPLE_RECORDS} records of each partition."
        if dry_run
        else f"{target.to} has {count}, {size}."
    )
    return 0


def _plan(options: ReadOptions, reader: Reader) -> dict[str, Any]:
    """Return how many records there are at most, and about how many bytes."""
    starts, stops = reader.starts, reader.stops
    ends = {number: min(stops[number], first + SAMPLE_RECORDS) for number, first in starts.items()}
    rows = sample_bytes = 0
    with opened(replace(options, assigned=partitions_of(options.topic, ends)), starts, ends) as sample:
        for batch in sample:
            rows, sample_bytes = rows + len(batch), sample_bytes + batch.nbytes
    records = sum(stops.values()) - sum(starts.values())
    return {"records": records, "bytes": records * sample_bytes // max(1, rows), "ends": dict(stops)}


def _copied(reader: Reader, target: ExportTarget, names: Sequence[str] | None) -> dict[str, Any]:
    """Write all records; return how many, and how large the files are."""
    from ehkafka.cli.export.files import ExportFiles  # noqa: PLC0415 - needs pyarrow, which `read` has found

    records, first = 0, sum(reader.starts.values())
    kept = reader.schema.names if names is None else columns_of(names)
    total = sum(reader.stops.values()) - first
    with target.staged() as path, progress_of("Exporting", total, "offsets") as report:
        try:
            with ExportFiles(target, path, reader.schema, kept) as files:
                for batch in reader:
                    files.write(batch)
                    records += len(batch)
                    report(sum(reader.ends.values()) - first)
        except EhkafkaError:
            notice(f"{target.to} was not written:")
            raise
    sizes = [file.stat().st_size for file in (target.path, *target.path.rglob("*.*")) if file.is_file()]
    return {"records": records, "bytes": sum(sizes), "ends": dict(reader.ends)}
