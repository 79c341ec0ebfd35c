"""A worker process as its parent sees it: started, spoken to, killed, buried.

One thread of the parent's owns a link; `kill` and `stack` may be called by any. The child inherits its ends
of the pipes and the standard streams, nothing else: no client, no socket, no other child's pipe.
"""

from __future__ import annotations

import marshal
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from ehkafka.errors import ConfigurationError
from ehkafka.wording.live_stack import dumped_stack
from ehkafka.workers.processes import pipe

# The child's first line, before it knows the parent's import path.
_MAIN = (
    "import sys; sys.path.insert(0, sys.argv[1]); from ehkafka.workers.processes.child import main; "
    "main(*map(int, sys.argv[2:]))"
)
_OURS = {signal.SIGINT, signal.SIGTERM}
# A dump of all threads' stacks takes a millisecond; it is over when nothing more came for a while.
STACK_CHECK_S = 3e-3
STACK_BYTES_MAX = 20_000
# The child writes one dump behind the other: above this the file begins anew.
DUMPS_BYTES_MAX = 1024 * 1024
# Between the end of a child's pipes and its own.
DYING_S = 2.0


class ProcessLink:
    """One running child. `close` at the end, whatever has happened."""

    def __init__(self, boot: bytes) -> None:
        """Start the child. Raises `OSError` when the system cannot."""
        executable = sys.executable
        if not executable:
            raise ConfigurationError(
                "sys.executable is empty, so no worker process can be started; use threads (workers=16)."
            )
        # Only the parent's ends; what is the child's is closed at once.
        self._open: list[int] = []
        self._guard = threading.Lock()
        self._dumps = tempfile.TemporaryFile(prefix="ehkafka-")  # noqa: SIM115 - closed by `close`
        theirs: list[int] = []
        try:
            request_r, self._request_w = self._pipe(theirs)
            answer_r, answer_w = self._pipe(theirs, mine=0)
            claim_r, claim_w = self._pipe(theirs)
            life_r, _ = self._pipe(theirs)
            os.set_blocking(claim_r, False)
            passed = (request_r, answer_w, claim_r, life_r, self._dumps.fileno())
            self._process = self._spawn(executable, passed)
        except BaseException:
            for fd in theirs:
                os.close(fd)
            self._close_files()
            raise
        for fd in theirs:
            if fd != claim_r:
                os.close(fd)
        self._open.append(claim_r)  # to take claims back
        self.reader = pipe.FrameReader(answer_r)
        self.claims = pipe.Claims(claim_r, claim_w)
        self.is_ready = False
        with suppress(OSError):  # it died already: the reader tells
            pipe.send(self._request_w, pipe.BOOT, boot)

    def _pipe(self, theirs: list[int], mine: int = 1) -> tuple[int, int]:
        ends = os.pipe()
        self._open.append(ends[mine])
        theirs.append(ends[1 - mine])
        return ends

    @staticmethod
    def _spawn(executable: str, theirs: tuple[int, ...]) -> subprocess.Popen[bytes]:
        root = str(Path(__file__).parents[3])
        # Blocked until the child can leave them to its parent; a child inherits its thread's mask.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _OURS)
        try:
            return subprocess.Popen(  # noqa: S603 - our own interpreter
                [executable, *interpreter_flags(), "-c", _MAIN, root, *map(str, theirs)],
                stdin=subprocess.DEVNULL,
                pass_fds=theirs,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    @property
    def is_dead(self) -> bool:
        """True once the process has ended, though somebody may still hold its pipes open."""
        return self._process.poll() is not None

    def send_batch(self, records: tuple[Any, ...]) -> None:
        """Hand a batch over whose claims are offered. Raises `OSError` when the child is gone."""
        pipe.send(self._request_w, pipe.BATCH, marshal.dumps(records))

    def ask_to_end(self) -> None:
        """Let the child run its tear-down and exit."""
        with self._guard:
            if self._request_w in self._open:
                self._open.remove(self._request_w)
                os.close(self._request_w)

    def kill(self) -> None:
        """End the child at once. Any thread."""
        self._process.kill()

    def bury(self) -> str:
        """Wait for the end of a child that is dying or dead, and say how it ended."""
        try:
            code = self._process.wait(DYING_S)
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.wait()
            return "it closed its pipes"
        if code >= 0:
            return f"exit code {code}"
        try:
            return f"signal {signal.Signals(-code).name}"
        except ValueError:
            return f"signal {-code}"

    def stack(self, ends_s: float) -> str:
        """Return the Python stacks of the child's threads if it tells them in time. Any thread."""
        try:
            if self.is_ready and not self.is_dead:
                found = self._dumped(ends_s)
                if found:
                    return f"in the child {self.pid}:\n{dumped_stack(found)}"
        except (OSError, ValueError):  # it ended, and its files are closed
            pass
        return f"in the child {self.pid}"

    def _dumped(self, ends_s: float) -> str:
        fd = self._dumps.fileno()
        before = os.fstat(fd).st_size
        if before > DUMPS_BYTES_MAX:
            os.ftruncate(fd, 0)
            os.lseek(fd, 0, os.SEEK_SET)  # the child's place, too: it inherited this very file
            before = 0
        seen = before
        self._process.send_signal(signal.SIGUSR1)
        while time.monotonic() < ends_s:
            time.sleep(STACK_CHECK_S)
            size = os.fstat(fd).st_size
            if size > before and size == seen:
                break
            seen = size
        return os.pread(fd, STACK_BYTES_MAX, before).decode(errors="replace")

    def close(self) -> None:
        """Kill what still runs, and let go of everything."""
        self.kill()
        self._process.wait()
        self._close_files()

    def _close_files(self) -> None:
        with self._guard:
            while self._open:
                os.close(self._open.pop())
            self._dumps.close()


def interpreter_flags() -> list[str]:
    """Return the interpreter's options that change what code does, for the child, too."""
    flags = ["-W" + option for option in sys.warnoptions]
    if sys.flags.dev_mode:
        flags.append("-Xdev")
    if sys.flags.isolated:
        flags.append("-I")
    if sys.flags.optimize:
        flags.append("-" + "O" * sys.flags.optimize)
    return flags
