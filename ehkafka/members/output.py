"""What members print and log, as one stream: each line goes where the supervisor's own would, numbered.

One thread reads all pipes and writes the lines. Whatever its terminal does, the supervisor does not wait for
it; members do, as they would for a terminal of their own.
"""

from __future__ import annotations

import math
import os
import selectors
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Literal

from ehkafka.telemetry.json_lines import BEGIN

CHUNK_BYTES: Final = 1 << 16
# A line that is longer comes in several.
LINE_BYTES_MAX: Final = 1 << 16
_CHECK_S: Final = 0.2


@dataclass(slots=True)
class _Pipe:
    number: int
    stream: Literal["stdout", "stderr"]
    begun: bytearray = field(default_factory=bytearray)


class MemberOutput:
    """The thread, and the pipes that it reads. `add` on the main thread, `close` at the end."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        # When to end although a pipe is still open; infinite before `close`.
        self._ends_s = math.inf
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="ehkafka-member-output", daemon=True)
        self._thread.start()

    def add(self, number: int, outputs: tuple[int, int]) -> None:
        """Take the standard output and error of a member's process, until they end."""
        for fd, stream in zip(outputs, ("stdout", "stderr"), strict=True):
            os.set_blocking(fd, False)
            self._selector.register(fd, selectors.EVENT_READ, _Pipe(number, stream))  # type: ignore[arg-type]

    def close(self, timeout_s: float) -> None:
        """Write what has come, wait for what is coming, and end, though a process may hold a pipe open."""
        self._ends_s, self._is_closing = time.monotonic() + timeout_s, True
        self._thread.join(timeout_s + 2 * _CHECK_S)

    def _run(self) -> None:
        while not (self._is_closing and not self._selector.get_map()) and time.monotonic() < self._ends_s:
            # A pipe that is added meanwhile, and `close`, are seen after that time.
            for key, _ in self._selector.select(_CHECK_S):
                self._read(key.fd, key.data)
        self._selector.close()

    def _read(self, fd: int, pipe: _Pipe) -> None:
        try:
            part = os.read(fd, CHUNK_BYTES)
        except BlockingIOError:
            return
        pipe.begun += part
        *lines, rest = pipe.begun.split(b"\n")
        if not part or len(rest) > LINE_BYTES_MAX:
            lines, rest = [*lines, rest] if rest else lines, bytearray()
        pipe.begun = bytearray(rest)
        _write(pipe, lines)
        if not part:
            self._selector.unregister(fd)
            os.close(fd)


def _write(pipe: _Pipe, lines: list[bytearray]) -> None:
    stream = getattr(sys, pipe.stream)
    text = "".join(f"{_numbered(pipe.number, line.decode(errors='replace'))}\n" for line in lines)
    # The reader has gone, or there never was a stream: members go on.
    with suppress(OSError, ValueError, AttributeError):
        stream.write(text)
        stream.flush()


def _numbered(number: int, line: str) -> str:
    """Return a line with its member's number; a line of JSON has it among its fields."""
    return line if line.startswith(BEGIN) else f"[{number}] {line}"
