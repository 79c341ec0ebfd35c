"""A side's process: starts it, reads its lines, says clearly what is wrong with them, and ends it."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from peers.window import Line, WindowError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import IO

READY_S_MAX = 60.0
# A side says something four times a second.
SILENT_S_MAX = 15.0
STOP_S = 5.0
ERROR_LINES = 12


class SideError(Exception):
    """A side ended early or broke the protocol; the message has its own last words."""


class SideProcess:
    """One side while it runs; leaving the context ends it and all that it has started."""

    def __init__(
        self, title: str, command: Sequence[str], options: Mapping[str, Any], environment: Mapping[str, str]
    ) -> None:
        self._title = title
        self._words: deque[str] = deque(maxlen=ERROR_LINES)
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        # In a session of its own: its children are ended with it.
        self._process = subprocess.Popen(
            [*command, json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=dict(environment),
            start_new_session=True,
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._readers = [
            threading.Thread(target=self._read_lines, args=(self._process.stdout,), daemon=True),
            threading.Thread(target=self._read_words, args=(self._process.stderr,), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def wait_until_ready(self) -> None:
        """Wait for `{"ready": true}`."""
        given = self._next(READY_S_MAX, "said not that it is ready")
        if given.get("ready") is not True:
            raise self._error(f'its first line must be {{"ready": true}} and is {given!r}')

    def lines(self) -> Iterator[Line]:
        """Yield its lines for as long as they are taken."""
        while True:
            given = self._next(SILENT_S_MAX, "said nothing")
            try:
                yield Line.from_json(given)
            except WindowError as wrong:
                raise self._error(str(wrong)) from wrong

    def end(self) -> None:
        """Ask it to end, then end its whole process group."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_S)
        # Children that its own end has left.
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for reader in self._readers:
            reader.join(STOP_S)
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()

    def _next(self, seconds: float, complaint: str) -> dict[str, Any]:
        try:
            text = self._lines.get(timeout=seconds)
        except queue.Empty:
            raise self._error(f"{complaint} for {seconds:g} s") from None
        if text is None:
            self._process.wait()
            raise self._error(f"ended with exit code {self._process.returncode}")
        try:
            given = json.loads(text)
        except ValueError:
            raise self._error(
                f"its standard output is for JSON lines alone, and has {text.strip()!r:.200}"
            ) from None
        if not isinstance(given, dict):
            raise self._error(f"a line is a JSON object, and one was {text.strip()!r:.200}")
        return given

    def _error(self, sentence: str) -> SideError:
        self._readers[1].join(0.2 if self._process.poll() is None else STOP_S)
        words = "".join(f"\n    {line}" for line in self._words)
        return SideError(f"{self._title}: {sentence}.{words}")

    def _read_lines(self, stream: IO[str]) -> None:
        for line in stream:
            self._lines.put(line)
        self._lines.put(None)

    def _read_words(self, stream: IO[str]) -> None:
        for line in stream:
            self._words.append(line.rstrip())
