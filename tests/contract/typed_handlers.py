"""Handlers of payload types for the contract of all kinds of workers; importable by a child process.

They write down what they were given, to one file, as `contract_handlers` does.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

import ehkafka  # noqa: TC001 - annotations are read when handlers are registered

# Where the lines are; set by the test before the app starts, inherited by children.
DIRECTORY = "EHKAFKA_TYPES_DIRECTORY"


@dataclass
class Reading:
    """What the payloads are."""

    sensor: str
    number: int


@dataclass
class Answer:
    """What is sent for a payload."""

    sensor: str
    twice: Any


def path(name: str) -> Path:
    """Return where lines of a kind are."""
    return Path(os.environ[DIRECTORY]) / name


def note(name: str, line: str) -> None:
    """Write a line down, in one piece, whatever other writers do."""
    file = os.open(path(name), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, f"{line}\n".encode())
    finally:
        os.close(file)


def lines(name: str) -> list[str]:
    """Return what was written down so far."""
    return path(name).read_text().splitlines() if path(name).exists() else []


def handle(reading: Reading) -> None:
    """Take the payload alone."""
    note("values", f"{reading.sensor} {reading.number}")


def handle_both(record: ehkafka.Record, reading: Reading) -> None:
    """Take the record, too."""
    assert (record.key() or b"").decode() == reading.sensor
    note("values", f"{reading.sensor} {reading.number}")


async def handle_async(reading: Reading) -> None:
    """Take it in a loop."""
    note("values", f"{reading.sensor} {reading.number}")


def handle_batch(batch: ehkafka.Batch[Reading]) -> None:
    """Take many."""
    for record, reading in zip(batch, batch.values, strict=True):
        assert (record.key() or b"").decode() == reading.sensor
        note("values", f"{reading.sensor} {reading.number}")


_DECODER = msgspec.json.Decoder(Reading)


def decode_noting(value: bytes) -> Any:
    """Decode, and write down where."""
    note("threads", f"{os.getpid()} {threading.current_thread().name}")
    return _DECODER.decode(value)


def make_decoder() -> Any:
    """Make a decoder, and write down that it was made."""
    note("made", str(os.getpid()))
    return decode_noting


def decode_at_third(value: bytes, record: ehkafka.Record) -> Any:
    """Fail twice, as a network does."""
    note("attempts", f"{record.offset()} {record.attempt}")
    if record.attempt < 3:
        raise ConnectionError("no answer")
    return _DECODER.decode(value)


def answer(reading: Reading) -> Answer:
    """Send twice the number; of 13 what JSON cannot say."""
    return Answer(reading.sensor, object() if reading.number == 13 else 2 * reading.number)


def answer_both(record: ehkafka.Record, reading: Reading) -> Answer:
    """Take the record, too."""
    return answer(reading)


async def answer_async(reading: Reading) -> Answer:
    """Do it in a loop."""
    return answer(reading)


def answer_batch(batch: ehkafka.Batch[Reading]) -> None:
    """Do it for many; what follows a failed record of a key comes again."""
    failed = set()
    for record, reading in zip(batch, batch.values, strict=True):
        try:
            if reading.sensor not in failed:
                record.send(answer(reading))
        except TypeError as error:
            batch.fail(record, error)
            failed.add(reading.sensor)
