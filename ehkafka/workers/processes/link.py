"""A worker process as its parent sees it: started, spoken to, killed, buried.

One thread of the parent's owns a link; `kill` and what concerns stacks may be called by any. The child
inherits its ends and the standard streams, nothing else: no client, no other socket, no other child's.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ehkafka.errors import ConfigurationError
from ehkafka.wording.live_stack import dumped_stack
from ehkafka.workers.processes import wire

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

# The first line of a process, before it knows its parent's import path.
_BEGIN = "import sys; sys.path.insert(0, sys.argv[1])"
_MAIN = "main(*map(int, sys.argv[2:]))"
# More than a pipe has.
DUMP_BYTES_MAX = 1 << 20
STACK_CHARACTERS_MAX = 20_000
# Between the end of a child's connection and its own.
DYING_S = 2.0


class ProcessLink:
    """One running child. `close` at the end, whatever has happened."""

    def __init__(self, boot: bytes, on_stop: Callable[..., object]) -> None:
        """Start the child. Raises `OSError` when the system cannot.

        `on_stop` hears what the child's code gave to `App.stop`.
        """
        self._on_stop = on_stop
        # It has ended, or closed its connection, and all that it had said was heard.
        self.is_gone = False
        with ExitStack() as files:
            ours, theirs = map(files.enter_context, socket.socketpair())
            permits, dumps = os.pipe(), os.pipe()
            for fd in (*permits, *dumps):
                os.set_blocking(fd, False)
            for fd in (*permits, dumps[1]):
                files.callback(os.close, fd)
            self.permits = wire.Permits(*permits)
            # A file, which knows that it is closed: another thread may read it then.
            self._dumps = files.enter_context(os.fdopen(dumps[0], "rb", buffering=0))
            self._connection = wire.Wire(ours)
            inherited = theirs.fileno(), permits[0], dumps[1]
            self._process = spawned(
                "ehkafka.workers.processes.child",
                *inherited,
                inherited=inherited,
                held=(signal.SIGINT, signal.SIGTERM),
            )
            theirs.close()
            self._files = files.pop_all()
        self.send(wire.BOOT, boot)

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    def send(self, *word: Any) -> None:
        """Send a word to the child, which may be dead by now."""
        with suppress(OSError):  # it has died: `receive` tells
            self._connection.send(*word)

    def receive(self, wait_s: float) -> list[wire.Word]:
        """Return what the child has said, waiting so long for its first word."""
        # Looked at first: what a process had said before it ended is there. A process of its own may hold
        # the connection open.
        is_dead = self._process.poll() is not None
        words = self._connection.receive(0.0 if is_dead else wait_s)
        self.is_gone = not words and (is_dead or self._connection.has_ended)
        for word in words:
            if word[0] == wire.STOP:
                self._on_stop(*word[1:])
        return [word for word in words if word[0] != wire.STOP]

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

    def ask_for_stack(self) -> None:
        """Have a ready child write down where its threads are, which takes it a millisecond. Any thread."""
        self._dumped()  # an earlier answer that came too late
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGUSR1)

    def stack(self) -> str:
        """Return what it wrote down. Any thread."""
        found = self._dumped()
        return f"in the child {self.pid}" + (f":\n{dumped_stack(found)}" if found else "")

    def _dumped(self) -> str:
        found = None
        with suppress(ValueError):  # it ended, and its files are closed
            found = self._dumps.read(DUMP_BYTES_MAX)
        return (found or b"").decode(errors="replace")[:STACK_CHARACTERS_MAX]

    def close(self) -> None:
        """Kill what still runs, and let go of everything."""
        self.kill()
        self._process.wait()
        self._files.close()


def spawned(
    module: str,
    *numbers: int,
    inherited: Collection[int],
    held: Collection[signal.Signals],
    **streams: Any,
) -> subprocess.Popen[bytes]:
    """Start a module's `main` with these numbers in a Python of its own, afresh, with these descriptors.

    Signals that are `held` wait until it unblocks them. Raises `OSError` when the system cannot.
    """
    if not sys.executable:
        raise ConfigurationError("sys.executable is empty, so no process can be started; use threads.")
    from multiprocessing import spawn  # noqa: PLC0415 - it brings much

    command = spawn.get_command_line()
    # Of this interpreter's options those that change what code does.
    options = command[1 : command.index("-c")]
    code = f"{_BEGIN}; from {module} import main; {_MAIN}"
    root = str(Path(__file__).parents[3])
    # A child inherits its thread's mask.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, held)
    try:
        return subprocess.Popen(  # noqa: S603 - our own interpreter
            [sys.executable, *options, "-c", code, root, *map(str, numbers)],
            stdin=subprocess.DEVNULL,
            pass_fds=tuple(inherited),
            **streams,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def how_it_ended(exit_code: int) -> str:
    """Return an exit code, negative for a signal, in words."""
    if exit_code >= 0:
        return f"exit code {exit_code}"
    try:
        return f"signal {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"signal {-exit_code}"
