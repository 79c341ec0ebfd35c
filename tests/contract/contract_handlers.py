"""Handlers for the contract of all kinds of workers; importable by a child process.

Each does what its record's value says and writes down what happened, so that they need no memory in common
with the test: `sleep 0.01`, `wait gate` (until the test opens it), `fail ValueError 2` (the first two
attempts). Lines go to one file, in the order in which things happened.
"""

from __future__ import annotations

import builtins
import functools
import os
import time
from pathlib import Path
from typing import Any

import ehkafka

# Where the lines and the gates are; set by the test before the app starts, inherited by children.
DIRECTORY = "EHKAFKA_CONTRACT_DIRECTORY"
CHECK_S = 2e-3
# Longer than an output that is on its way needs, so that one that is sent in vain is seen.
SENT_S = 0.03


def directory() -> Path:
    """Return where this test's lines and gates are."""
    return Path(os.environ[DIRECTORY])


@functools.cache
def _lines(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def _attempt(record: Any) -> int:
    """Return the attempt; a raw message does not know it, and has started once more by then."""
    if isinstance(record, ehkafka.Record):
        return record.attempt
    start = f"start {record.topic()} {record.partition()} {record.offset()} "
    return (directory() / "lines").read_text().count(start) or 1


def note(word: str, record: Any) -> None:
    """Write a line down, in one piece, whatever other writers do."""
    key = (record.key() or b"-").decode()
    attempt = record.attempt if isinstance(record, ehkafka.Record) else 0
    line = f"{word} {record.topic()} {record.partition()} {record.offset()} {key} {attempt}\n"
    os.write(_lines(str(directory() / "lines")), line.encode())


def _words(record: Any) -> list[str]:
    return (record.value() or b"").decode().split()


def _error(kind: str) -> Any:
    if kind == "CancelledError":
        import asyncio  # noqa: PLC0415 - worker processes load this module, and asyncio takes them long

        return asyncio.CancelledError
    return getattr(builtins, kind, None) or getattr(ehkafka, kind)


def _fail_if_reported(record: Any) -> None:
    match _words(record):
        case ["fail", "RetryLater", times] if _attempt(record) <= int(times):
            raise ehkafka.RetryLater(0.01, f"no luck with {record.offset()}")
        case ["fail", kind, times] if _attempt(record) <= int(times):
            raise _error(kind)(f"no luck with {record.offset()}")


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


async def _sleep(seconds: float) -> None:
    import asyncio  # noqa: PLC0415 - worker processes load this module, and asyncio takes them long

    await asyncio.sleep(seconds)


async def handle_async(record: Any) -> None:
    """Handle a record, awaiting."""
    note("start", record)
    try:
        match _words(record):
            case ["sleep", seconds]:
                await _sleep(float(seconds))
            case ["wait", gate]:
                while not (directory() / gate).exists():  # a file is all that children share
                    await _sleep(CHECK_S)
        _fail_if_reported(record)
    except BaseException:
        note("raise", record)
        raise
    note("end", record)


async def handle_stubborn_async(record: Any) -> None:
    """Handle a record, whether it is cancelled or not."""
    import asyncio  # noqa: PLC0415 - see above

    call = asyncio.ensure_future(handle_async(record))
    while not call.done():
        try:
            await asyncio.shield(call)
        except asyncio.CancelledError:
            continue


def handle_batch(batch: Any) -> None:
    """Handle a batch, one record after another."""
    for record in batch:
        handle(record)


def _answer(record: Any) -> Any:
    return bytes(2_000_000) if _words(record) == ["large"] else str(record.offset())


def send(record: Any) -> Any:
    """Handle a record and send its offset, or much too much."""
    handle(record)
    return _answer(record)


async def send_async(record: Any) -> Any:
    """Do it awaiting."""
    await handle_async(record)
    return _answer(record)


def send_batch(batch: Any) -> None:
    """Do it for each record of a batch."""
    for record in batch:
        record.send(send(record))


def send_first(record: Any) -> None:
    """Send the offset, and then handle the record."""
    record.send(_answer(record))
    time.sleep(SENT_S)
    handle(record)


async def send_first_async(record: Any) -> None:
    """Do it awaiting."""
    record.send(_answer(record))
    await _sleep(SENT_S)
    await handle_async(record)


def send_first_batch(batch: Any) -> None:
    """Do it for each record of a batch."""
    for record in batch:
        send_first(record)
