"""`ehkafka tail`: prints records as they come, until enough have come, Ctrl-C, or nobody reads them any more.

On the main thread. Joins no group and commits nothing. What a person should know beside the records goes to
stderr, so that stdout can be piped.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from ehkafka.checks import printable
from ehkafka.cli.tail_text import as_json, as_text
from ehkafka.cli.unread import quiet_pipe

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka import Record
    from ehkafka.checks import TopicReader


@dataclass(frozen=True, slots=True, kw_only=True)
class TailView:
    """What is printed of the records, and how: `count` of them, or all that will ever come."""

    count: int | None = None
    key: str | None = None
    as_json: bool = False
    full: bool = False


def tail(reader: TopicReader, view: TailView) -> None:
    """Print until there is a reason to stop; Ctrl-C and a closed pipe are good ones."""
    write = _json_writer() if view.as_json else _text_writer(full=view.full)
    with quiet_pipe(), suppress(KeyboardInterrupt), reader:
        _print(reader, view, write)


def notice(text: str) -> None:
    """Say on stderr what is not a record."""
    typer.echo(f"ehkafka: {printable(text)}", err=True)


def _print(reader: TopicReader, view: TailView, write: Callable[[Record], None]) -> None:
    left = view.count
    # The bytes that were typed, whether they are UTF-8 or not.
    wanted = None if view.key is None else os.fsencode(view.key)
    for batch in reader.batches():
        for record in batch:
            if wanted is not None and wanted != record.key() and view.key != record.partition_key:
                continue
            write(record)
            if left is not None:
                left -= 1
                if not left:
                    return
        # What has come is shown now, though stdout may be a pipe.
        sys.stdout.flush()


def _json_writer() -> Callable[[Record], None]:
    out = sys.stdout.buffer

    def write(record: Record) -> None:
        out.write(as_json(record) + b"\n")

    return write


def _text_writer(*, full: bool) -> Callable[[Record], None]:
    if sys.stdout.isatty():
        console = Console(highlight=False, markup=False, soft_wrap=True)
        return lambda record: console.print(as_text(record, full=full))
    encoding = sys.stdout.encoding or "utf-8"
    out = sys.stdout.buffer

    def write(record: Record) -> None:
        out.write(f"{as_text(record, full=full).plain}\n".encode(encoding, "backslashreplace"))

    return write
