"""The command as a person runs it: in a terminal of its own, and what that has shown."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

from tests.kit.running import COMMAND

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class Terminal:
    """A command whose controlling terminal this is, and what it has shown."""

    def __init__(self, folder: Path, *arguments: str, command: Sequence[str] = COMMAND) -> None:
        self._ours, theirs = pty.openpty()
        self.shown = b""
        self.process = subprocess.Popen(
            [sys.executable, "-c", _TAKE_TERMINAL, *command[1:], *arguments],
            cwd=folder,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"},
            start_new_session=True,
        )
        os.close(theirs)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            while part := os.read(self._ours, 65_536):
                self.shown += part
        except OSError:  # the command has closed its side
            pass

    @property
    def text(self) -> str:
        """What was shown, without control sequences."""
        return re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", self.shown).decode(errors="replace")

    def press(self, key: bytes) -> None:
        """Press a key."""
        os.write(self._ours, key)

    def hang_up(self) -> None:
        """End the terminal, as closing its window does."""
        os.close(self._ours)
        self._ours = -1

    def close(self) -> None:
        """Leave nothing of it."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self._ours >= 0:
            os.close(self._ours)


# Our own interpreter runs the command; before that it makes its standard input its controlling terminal, and
# hears of its end though the tests themselves were started with nohup.
_TAKE_TERMINAL = (
    "import fcntl, os, signal, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "signal.signal(signal.SIGHUP, signal.SIG_DFL); "
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)
