"""Handlers with outputs, for the contract of all kinds of workers; importable by a child process.

They share files with the test alone: a gate, which all but the first few wait for, and a line for each call.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

from ehkafka import Send

# Where the lines and the gate are; set by the test before the app starts, inherited by children.
DIRECTORY = "EHKAFKA_OUTPUTS_DIRECTORY"
CHECK_S = 2e-3


def _at(name: str) -> Path:
    return Path(os.environ[DIRECTORY]) / name


def note(word: object) -> None:
    """Write a line, in one piece whoever else writes."""
    fd = os.open(_at("lines"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(fd, f"{word}\n".encode())
    os.close(fd)


def lines() -> list[str]:
    """What was written so far."""
    return _at("lines").read_text().split("\n")[:-1] if _at("lines").exists() else []


def open_gate() -> None:
    """Let go on what waits."""
    _at("gate").touch()


def _wait() -> None:
    while not _at("gate").exists():
        time.sleep(CHECK_S)


def plain(record: Any) -> str:
    """Send the offset."""
    return str(record.offset())


def slow(record: Any) -> str:
    """Send the offset, after a while."""
    time.sleep(0.002)
    return str(record.offset())


async def plain_async(record: Any) -> str:
    """Send the offset."""
    return str(record.offset())


def bytes_by_send(record: Any) -> Send:
    """Send what nobody can tell from JSON, to another topic than the first one."""
    return Send(b"{}", topic="out")


def json_of_any(record: Any) -> Any:
    """Send what no annotation tells."""
    return {}


class Instance:
    """Sends the offset."""

    def process(self, record: Any) -> Send:
        """Handle a record."""
        return Send(str(record.offset()))


def gated(record: Any) -> str:
    """Send the offset once the gate is open, and note the call."""
    _wait()
    note(record.offset())
    return str(record.offset())


async def gated_async(record: Any) -> str:
    """Do it in a task."""
    while not _at("gate").exists():  # noqa: ASYNC110 - a file is all that children share
        await asyncio.sleep(CHECK_S)
    note(record.offset())
    return str(record.offset())


def gated_batch(batch: Any) -> None:
    """Do it for each record of a batch."""
    for record in batch:
        record.send(gated(record))


def sent_at_once(record: Any) -> None:
    """Send the offset by the record, once the gate is open."""
    record.send(gated(record))


def large(record: Any) -> bytes:
    """Send too much for the second record."""
    return b"x" * 2_000_000 if record.offset() == 1 else b"1"


async def large_async(record: Any) -> bytes:
    """Do it in a task."""
    return large(record)


def large_batch(batch: Any) -> None:
    """Do it for a batch of one."""
    for record in batch:
        record.send(large(record))


def unasked(_record: Any) -> Any:
    """Send without a topic."""
    return Send("x")


def copies(record: Any) -> Any:
    """Send what came, after a while."""
    time.sleep(0.002)
    return record.value()


def fails_unless_good(record: Any) -> None:
    """Send, and fail unless the key is `good`."""
    record.send("1")
    if record.key() != b"good":
        raise ValueError("no luck")
    record.send("2")
