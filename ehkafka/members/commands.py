"""The supervisor's signals: the first stops all members, the second at once, SIGHUP replaces them.

SIGUSR1 has each of them log what it does.

Handlers run in the main thread between two of its bytecodes. They only note the signal.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from ehkafka.run.signals import STOP_SIGNALS, handled

if TYPE_CHECKING:
    from collections import deque
    from contextlib import AbstractContextManager
    from types import FrameType


def has_terminal() -> bool:
    """Tell whether this process has a controlling terminal, whose end a SIGHUP then means."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def caught(signals: deque[str]) -> AbstractContextManager[None]:
    """Put the names of signals into the queue while the block runs; a terminal's hang-up is a SIGTERM.

    Under `nohup` in a terminal a hang-up is ignored.
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

    return handled(numbers, handle)


class StoppedEarly(BaseException):
    """A signal has stopped the members before there were any. No `Exception`, as user code may be running."""


def caught_early() -> AbstractContextManager[None]:
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

    return handled(numbers, handle)
