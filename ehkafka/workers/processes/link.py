"""A worker process as its parent sees it: started, spoken to, killed, buried.

One thread of the parent's owns a link; `kill` and `stack` may be called by any. The child inherits its ends
and the standard streams, nothing else: no client, no other socket, no other child's.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ehkafka.errors import ConfigurationError
from ehkafka.wording.live_stack import dumped_stack
from ehkafka.workers.processes import wire

if TYPE_CHECKING:
    from collections.abc import Callable

# The child's first line, before it knows the parent's import path.
_MAIN = (
    "import sys; sys.path.insert(0, sys.argv[1]); from ehkafka.workers.processes.child import main; "
    "main(*map(int, sys.argv[2:]))"
)
_OURS = {signal.SIGINT, signal.SIGTERM}
# A dump of all threads' stacks takes a millisecond; it is over when nothing more came for a while.
STACK_CHECK_S = 3e-3
STACK_BYTES_MAX = 20_000
# Between the end of a child's connection and its own.
DYING_S = 2.0


class ProcessLink:
    """One running child. `close` at the end, whatever has happened."""

    def __init__(self, boot: bytes, take_aside: Callable[..., bool]) -> None:
        """Start the child. Raises `OSError` when the system cannot.

        `take_aside` is called with each word, and tells whether that was no word of the child's own.
        """
        if not sys.executable:
            raise ConfigurationError(
                "sys.executable is empty, so no worker process can be started; use threads (workers=16)."
            )
        self._take_aside = take_aside
        # It has ended, or closed its connection, and all that it had said was heard.
        self.is_gone = False
        with ExitStack() as files:
            ours, theirs = map(files.enter_context, socket.socketpair())
            self._dumps = files.enter_context(tempfile.TemporaryFile(buffering=0, prefix="ehkafka-"))
            # What the child writes goes to its end, which is here again once it was emptied.
            fcntl.fcntl(self._dumps, fcntl.F_SETFL, os.O_APPEND)
            claims = os.pipe()
            for fd in claims:
                files.callback(os.close, fd)
            os.set_blocking(claims[0], False)
            self.claims = wire.Claims(*claims)
            self._connection = wire.Connection(ours)
            self._process = self._spawn((theirs.fileno(), claims[0], self._dumps.fileno()))
            theirs.close()
            self._files = files.pop_all()
        self._send(wire.BOOT, boot)

    @staticmethod
    def _spawn(theirs: tuple[int, ...]) -> subprocess.Popen[bytes]:
        root = str(Path(__file__).parents[3])
        # Blocked until the child can leave them to its parent; a child inherits its thread's mask.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _OURS)
        try:
            return subprocess.Popen(  # noqa: S603 - our own interpreter
                [sys.executable, *interpreter_flags(), "-c", _MAIN, root, *map(str, theirs)],
                stdin=subprocess.DEVNULL,
                pass_fds=theirs,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    def _send(self, *word: Any) -> None:
        with suppress(OSError):  # it has died: `receive` tells
            self._connection.send(*word)

    def send_batch(self, records: tuple[Any, ...]) -> None:
        """Hand a batch over whose claims are offered."""
        self._send(wire.BATCH, records)

    def ask_to_leave(self) -> None:
        """Let the child run its tear-down and exit."""
        self._send(wire.LEAVE)

    def receive(self, wait_s: float) -> list[wire.Word]:
        """Return what the child has said, waiting so long for its first word."""
        # Looked at first: what a process had said before it ended is there. A process of its own may hold
        # the connection open.
        is_dead = self._is_dead
        words = self._connection.receive(0.0 if is_dead else wait_s)
        self.is_gone = not words and (is_dead or self._connection.has_ended)
        return [word for word in words if not self._take_aside(*word)]

    @property
    def _is_dead(self) -> bool:
        return self._process.poll() is not None

    def kill(self) -> None:
        """End the child at once. Any thread."""
        self._process.kill()

    def bury(self) -> str:
        """Wait for the end of a child that is dying or dead, and return how it ended, in words."""
        try:
            code = self._process.wait(DYING_S)
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.wait()
            return "it closed its connection"
        return how_it_ended(code)

    def stack(self, until_s: float) -> str:
        """Return the Python stacks of a ready child's threads if it tells them in time. Any thread."""
        found = b""
        with suppress(OSError, ValueError):  # it ended, and its files are closed
            if not self._is_dead:
                found = self._dumped(until_s)
        stacks = dumped_stack(found.decode(errors="replace")) if found else ""
        return f"in the child {self.pid}" + (f":\n{stacks}" if found else "")

    def _dumped(self, until_s: float) -> bytes:
        dumps, found = self._dumps, b""
        dumps.truncate(0)
        self._process.send_signal(signal.SIGUSR1)
        while time.monotonic() < until_s:
            time.sleep(STACK_CHECK_S)
            dumps.seek(0)
            before, found = found, dumps.read(STACK_BYTES_MAX)
            if found and found == before:
                break
        return found

    def close(self) -> None:
        """Kill what still runs, and let go of everything."""
        self.kill()
        self._process.wait()
        self._files.close()


def how_it_ended(exit_code: int) -> str:
    """Return an exit code, negative for a signal, in words."""
    if exit_code >= 0:
        return f"exit code {exit_code}"
    try:
        return f"signal {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"signal {-exit_code}"


def interpreter_flags() -> list[str]:
    """Return the interpreter's options that change what code does, for the child, too."""
    # What `multiprocessing` starts its processes with.
    return list(subprocess._args_from_interpreter_flags())  # type: ignore[attr-defined]  # noqa: SLF001
