"""What becomes of output that nobody reads any more (`| head`): it is no error, and nothing is said of it."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def quiet_pipe() -> Iterator[None]:
    """End the block without a word when stdout's reader has gone."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_stdout()


class PipedConsole(Console):
    """Writes to stdout until its reader has gone. Then the command goes on, for its exit code."""

    def on_broken_pipe(self) -> None:
        """Go on in silence; rich's own would exit with 1, which says that something failed."""
        self.quiet = True
        _forget_stdout()


def _forget_stdout() -> None:
    """Keep the interpreter from writing the rest when it ends. Without a file behind it there is none."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
