"""Handlers that worker processes import: each does what its record's value says and notes that it did.

The test and the children share a file, whose path the children inherit in a variable.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from ehkafka import Send

DIRECTORY = "EHKAFKA_PROCESS_TEST"


class Odd(Exception):  # noqa: N818 - a user's exception of any name
    """Cannot be rebuilt from its pickle: it takes two arguments and hands one on."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


class Reported(Exception):  # noqa: N818 - likewise
    """Can be rebuilt, with what it carries."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def note(*words: object) -> None:
    """Write a line in one piece, also while other processes write."""
    path = Path(os.environ[DIRECTORY]) / "lines"
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(fd, (" ".join(map(str, words)) + "\n").encode())
    os.close(fd)


def handle(record: Any) -> None:
    """Do what the value says."""
    _do(record, (record.value() or b"").decode().split())


def _do(record: Any, words: list[str]) -> None:
    note("start", record.offset(), record.attempt, os.getpid())
    match words:
        case ["kill", times] if record.attempt <= int(times):
            os.kill(os.getpid(), signal.SIGKILL)
        case ["exit", code]:
            os._exit(int(code))
        case ["sleep", seconds]:
            time.sleep(float(seconds))
        case ["wait"]:
            while not (Path(os.environ[DIRECTORY]) / "gate").exists():
                time.sleep(0.002)
        case ["odd"]:
            raise Odd(7, "an odd failure")
        case ["fail", times] if record.attempt <= int(times):
            raise Reported(7)
        case ["reported"]:
            raise Reported(7)
        case ["defer"]:
            record.defer()
        case ["print"]:
            sys.stdout.write("a line of the handler\n")
        case ["read", *_]:
            note("read", *map(repr, _read(record)))
    note("end", record.offset(), record.attempt, os.getpid())


def is_first(name: str) -> bool:
    """Tell once, over all processes."""
    try:
        (Path(os.environ[DIRECTORY]) / name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def under_stress(record: Any) -> None:
    """Note each step with its time, and do what the value says."""
    at = record.partition(), record.offset(), record.key().decode(), os.getpid()
    note("begin", *at, time.monotonic_ns())
    match (record.value() or b"").decode().split():
        case ["sleep", seconds]:
            time.sleep(float(seconds))
        case ["fail", times] if record.attempt <= int(times):
            note("failed", *at, time.monotonic_ns())
            raise Reported(7)
        case ["kill", "once"] if is_first(f"{at[0]}-{at[1]}"):
            os.kill(os.getpid(), signal.SIGKILL)
    note("done", *at, time.monotonic_ns())


class Topic(StrEnum):
    """A user's own type of text."""

    MORE = "more"


class Opaque:
    """What no codec knows."""


@dataclass
class Reading:
    """A payload; `spoiled` cannot be said in JSON."""

    celsius: float
    spoiled: Any = None


ODD_SENDS: dict[str, Any] = {
    "value": Opaque(),
    "payload": Reading(1.0, Opaque()),
    "topic": Send("x", topic="elsewhere"),
    "key": Send("x", key=5),  # type: ignore[arg-type]
    "header": Send("x", headers={"a": 5}),  # type: ignore[dict-item]
    "header's name": Send("x", headers=[(b"a", b"x")]),  # type: ignore[list-item]
    "partition": Send("x", partition="1"),  # type: ignore[arg-type]
    "no partition": Send("x", partition=-2),
    "no such number": Send("x", partition=2**40),
    "true": Send("x", partition=True),
    "large": b"x" * 2_000_000,
    "coroutine": None,
    "own types": Send(
        Reading(2.5),
        key=Topic.MORE,
        topic=Topic.MORE,
        headers={Topic.MORE: Topic.MORE},
    ),
}


async def _nothing() -> None:
    """Do nothing."""


def send(record: Any) -> Any:
    """Do what the value says, and send: the offset, or what the value names."""
    words = (record.value() or b"").decode().split()
    if words[:1] == ["before"]:
        record.send(f"{record.offset()} before {record.attempt}")
        words = words[1:]
    _do(record, words)
    match words:
        case ["odd", *what]:
            return _nothing() if what == ["coroutine"] else ODD_SENDS[" ".join(what)]
        case ["several", count]:
            return (f"{record.offset()}.{number}" for number in range(int(count)))
        case ["bytes", count]:
            return b"x" * int(count)
        case ["nothing"]:
            return None
        case ["late"]:
            return _send_late(record)
    return str(record.offset())


def _send_late(record: Any) -> None:
    def late() -> None:
        time.sleep(0.05)
        try:
            record.send("late")
        except RuntimeError as error:
            note("late", error)

    threading.Thread(target=late).start()


def _read(record: Any) -> tuple[Any, ...]:
    return (
        record.topic(),
        record.partition(),
        record.key(),
        record.value(),
        record.headers(),
        record.timestamp(),
        record.leader_epoch(),
        record.latency(),
        record.error(),
        record.properties,
        record.partition_key,
        len(record),
        record.header("a"),
        record.time,
        record.where,
    )


def middleware(record: Any, call_next: Any) -> object:
    """Note who came by."""
    note("around", record.offset(), os.getpid())
    return call_next(record)


def set_up() -> None:
    """Note that a child is up, and fail if the test wants it."""
    note("up", os.getpid())
    if (Path(os.environ[DIRECTORY]) / "refuse").exists():
        raise ConnectionError("no pool")
    if (Path(os.environ[DIRECTORY]) / "die").exists():
        sys.stderr.flush()
        os._exit(9)


def tear_down() -> None:
    """Note that a child leaves."""
    note("down", os.getpid())


def set_up_logging() -> None:
    """Let what a handler logs be written."""
    logging.basicConfig(level=logging.INFO)
