"""Ends a command quietly when nobody reads its output any more (`| head`)."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

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


def _forget_stdout() -> None:
    """Keep the interpreter from writing the rest when it ends. Without a file behind it there is none."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
