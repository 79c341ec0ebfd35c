"""What the benchmark's handlers do with a record, by name: the same for ehkafka and for what is bare.

Also imported by worker processes: functions for those stand at the top level, and importing starts nothing.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import random
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

# W1's times: drawn once, and by the record's place, so that both sides sleep exactly the same.
_draw = random.Random(1)  # noqa: S311 - no secret
SPREAD_S = [_draw.uniform(0.0, 0.005) for _ in range(4096)]
IO_S = 0.005
# How often `_compute` goes round: 39 ns each where these were chosen. Not fitted to the machine, so that both
# sides, and two runs, do the same.
COMPUTE_ROUNDS = {"compute 16 µs": 400, "compute 20 µs": 510, "compute 160 µs": 4_000}
COMPUTE_ROUNDS |= {"compute 1 ms": 25_500, "compute 5 ms": 128_000}
MIXED_ROUNDS = 12_800


def handler(work: str | float) -> Callable[[Any], None]:
    """Return a plain handler: so many seconds of sleep, or one of the names below."""
    if isinstance(work, str):
        return PLAIN[work]()
    return (lambda _record: None) if work == 0.0 else (lambda _record: time.sleep(work))


def async_handler(work: str | float) -> Callable[[Any], Awaitable[None]]:
    """Return the same as an `async def`."""
    if work == "io":
        return _async_io()

    async def nothing(_record: Any) -> None:
        pass

    async def give_way(_record: Any) -> None:
        await asyncio.sleep(0)

    async def sleep(_record: Any) -> None:
        await asyncio.sleep(float(work))

    if work == "give way":
        return give_way
    return sleep if work else nothing


def sha_500(record: Any) -> None:
    """500 rounds of SHA-256: about a millisecond of CPU under the GIL."""
    _sha(record.value(), 500)


def sha_2000(record: Any) -> None:
    """2000 rounds of SHA-256: about four milliseconds."""
    _sha(record.value(), 2000)


def spread(record: Any) -> None:
    """Sleep 0 to 5 ms."""
    time.sleep(SPREAD_S[(record.offset() * 31 + record.partition()) & 4095])


def mixed(_record: Any) -> None:
    """Half a millisecond of Python, half a millisecond of sleep."""
    _compute(MIXED_ROUNDS)
    time.sleep(0.0005)


def _computing(rounds: int) -> Callable[[Any], None]:
    def compute(_record: Any) -> None:
        _compute(rounds)

    return compute


def _compute(rounds: int) -> None:
    """Nothing but Python's own bytecode: it never lets the interpreter's lock go by itself."""
    value = 1
    for _ in range(rounds):
        value = value * 31 % 65_521


def parse(record: Any) -> None:
    """Read the value as JSON."""
    orjson.loads(record.value())


def _sha(value: bytes, rounds: int) -> None:
    for _ in range(rounds):
        hashlib.sha256(value).digest()


def _io() -> Callable[[Any], None]:
    """Return what asks a service that answers after 5 ms, over a connection of each thread's own."""
    port = start_echo()
    local = threading.local()

    def ask(_record: Any) -> None:
        connection = getattr(local, "connection", None)
        if connection is None:
            connection = local.connection = socket.create_connection(("127.0.0.1", port))
        connection.sendall(b"?")
        connection.recv(1)

    return ask


def _async_io() -> Callable[[Any], Awaitable[None]]:
    """Return the same for tasks; a task that finds no free connection opens one more."""
    port = start_echo()
    free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def ask(_record: Any) -> None:
        reader, writer = free.pop() if free else await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"?")
        await reader.readexactly(1)
        free.append((reader, writer))

    return ask


def start_echo() -> int:
    """Start the service in a process of its own, which ends with this one; return its port."""
    command = [sys.executable, str(Path(__file__).with_name("_bench_echo.py"))]
    service = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    _services.append(service)
    assert service.stdout is not None
    return int(service.stdout.readline())


# Kept: a service ends when its standard input is closed.
_services: list[subprocess.Popen[str]] = []

PLAIN: dict[str, Callable[[], Callable[[Any], None]]] = {
    "spread": lambda: spread,
    "sha_500": lambda: sha_500,
    "sha_2000": lambda: sha_2000,
    "io": _io,
    "json": lambda: parse,
    "mixed": lambda: mixed,
    **{name: functools.partial(_computing, rounds) for name, rounds in COMPUTE_ROUNDS.items()},
}
