"""The beginning of a process that `--reload` has started: it ends with its parent, else it is the command."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from contextlib import suppress
from typing import Final

_PR_SET_PDEATHSIG: Final = 1


def main(parent: int, *words: str) -> None:
    """Run the command; `parent` is the process that started this, `words` are its name and arguments."""
    # Nothing else would stop it when the parent is killed. As for any SIGTERM, what has started is finished.
    with suppress(OSError, AttributeError):  # not on Linux
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:  # it ended before that
        return
    sys.argv[:] = words
    from ehkafka.cli.__main__ import main as command  # noqa: PLC0415 - after all of the above

    command()
