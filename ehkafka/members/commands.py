"""The supervisor's signals: the first stops all members, the second at once, SIGHUP replaces them.

SIGUSR1 has each of them log what it does.

Handlers run in the main thread between two of its bytecodes. They only put down what came and wake the loop.
"""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from ehkafka.run.signals import STOP_SIGNALS

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Iterator
    from types import FrameType


def has_terminal() -> bool:
    """Tell whether this process has a controlling terminal, whose end a SIGHUP then means."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


@contextmanager
def caught(signals: deque[str], wake: Callable[[], None]) -> Iterator[None]:
    """Put the names of signals into the queue while the block runs; a terminal's hang-up is a SIGTERM.

    Whoever started this with `nohup` in a terminal wants no hang-up at all.
    """
    # Asked now: when the signal comes, the terminal is gone.
    in_terminal = has_terminal()
    numbers = [*STOP_SIGNALS, signal.SIGHUP, signal.SIGUSR1]
    if signal.getsignal(signal.SIGUSR1) is not signal.SIG_DFL:
        numbers.remove(signal.SIGUSR1)  # the program has a use of its own for it
    if in_terminal and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        numbers.remove(signal.SIGHUP)

    def handle(number: int, _frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        signals.append("SIGTERM" if name == "SIGHUP" and in_terminal else name)
        wake()

    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class StoppedEarly(BaseException):
    """A signal has stopped the members before there were any. No `Exception`, as user code may be running."""


@contextmanager
def caught_early() -> Iterator[None]:
    """Do what the supervisor's signals do, while it is about to start: SIGTERM raises `StoppedEarly`.

    SIGHUP does nothing: members that are not started yet will have the newest code. In the main thread.
    """
    numbers = [signal.SIGTERM, signal.SIGHUP]
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        numbers.remove(signal.SIGHUP)
    in_terminal = has_terminal()

    def handle(number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGTERM or in_terminal:
            raise StoppedEarly

    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Waker:
    """A pipe that ends a selector's wait; any thread, and a signal's handler, may write."""

    def __init__(self) -> None:
        self._read_fd, self._write_fd = os.pipe()
        for fd in (self._read_fd, self._write_fd):
            os.set_blocking(fd, False)

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        return self._read_fd

    def wake(self) -> None:
        """End the wait that runs, or the next one."""
        with suppress(OSError):  # full: it ends in any case; closed: nobody waits
            os.write(self._write_fd, b"!")

    def drain(self) -> None:
        """Take what was written."""
        with suppress(BlockingIOError):
            while os.read(self._read_fd, 4096):
                pass

    def close(self) -> None:
        """Close both ends; who wakes it then writes into nothing, however the numbers are used again."""
        read_fd, write_fd = self._read_fd, self._write_fd
        self._read_fd = self._write_fd = -1
        for fd in (read_fd, write_fd):
            os.close(fd)
