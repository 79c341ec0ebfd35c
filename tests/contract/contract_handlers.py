"""Handlers for the contract of all kinds of workers; importable by a child process.

Each does what its record's value says and writes down what happened, so that they need no memory in common
with the test: `sleep 0.01`, `wait gate` (until the test opens it), `fail ValueError 2` (the first two
attempts). Lines go to one file, in the order in which things happened.
"""

from __future__ import annotations

import asyncio
import builtins
import functools
import os
import time
from pathlib import Path
from typing import Any

# Where the lines and the gates are; set by the test before the app starts, inherited by children.
DIRECTORY = "EHKAFKA_CONTRACT_DIRECTORY"
CHECK_S = 2e-3


def directory() -> Path:
    """Return where this test's lines and gates are."""
    return Path(os.environ[DIRECTORY])


@functools.cache
def _lines(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def note(word: str, record: Any) -> None:
    """Write a line down, in one piece whoever else writes."""
    key = (record.key() or b"-").decode()
    line = f"{word} {record.topic()} {record.partition()} {record.offset()} {key} {record.attempt}\n"
    os.write(_lines(str(directory() / "lines")), line.encode())


def _words(record: Any) -> list[str]:
    return (record.value() or b"").decode().split()


def _fail_if_reported(record: Any) -> None:
    match _words(record):
        case ["fail", kind, times] if record.attempt <= int(times):
            raise getattr(builtins, kind)(f"no luck with {record.offset()}")


def handle(record: Any) -> None:
    """Handle a record, blocking."""
    note("start", record)
    try:
        match _words(record):
            case ["sleep", seconds]:
                time.sleep(float(seconds))
            case ["wait", gate]:
                while not (directory() / gate).exists():
                    time.sleep(CHECK_S)
        _fail_if_reported(record)
    except BaseException:
        note("raise", record)
        raise
    note("end", record)


async def handle_async(record: Any) -> None:
    """Handle a record, awaiting."""
    note("start", record)
    try:
        match _words(record):
            case ["sleep", seconds]:
                await asyncio.sleep(float(seconds))
            case ["wait", gate]:
                while not (directory() / gate).exists():  # noqa: ASYNC110 - a file is all that children share
                    await asyncio.sleep(CHECK_S)
        _fail_if_reported(record)
    except BaseException:
        note("raise", record)
        raise
    note("end", record)


async def handle_stubborn(record: Any) -> None:
    """Handle a record, whether it is cancelled or not."""
    call = asyncio.ensure_future(handle_async(record))
    while not call.done():
        try:
            await asyncio.shield(call)
        except asyncio.CancelledError:
            continue


def refuse_to_start() -> None:
    """Fail as a worker's set-up."""
    raise ConnectionError("no pool")


def handle_batch(batch: Any) -> None:
    """Handle a batch, one record after another."""
    for record in batch:
        handle(record)


class Handler:
    """Handles the records of one partition."""

    def open(self, partition: Any) -> None:
        """Need nothing."""

    def process(self, record: Any) -> None:
        """Handle a record, blocking."""
        handle(record)
