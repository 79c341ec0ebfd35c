"""Signals, a supervisor's orders, and whether the program is only imported.

The first signal asks for a stop as the settings have it, the second to exit at once. Only `App.run` in the
main thread takes them; an app inside another framework's lifespan leaves them alone. In a member its
supervisor decides, and the process's own signals do nothing to the app.
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from types import FrameType

    from ehkafka.positions.gap import LogBounds
    from ehkafka.records import TopicPartition

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
# Handlers that the program has not set: the system's own, and a member's that does not run yet.
FREE: list[object] = [signal.SIG_DFL]

# What a member's supervisor orders, in the shape of `stop_signals`; None where there is none. Set once,
# before the user's code is imported.
orders: Callable[[Callable[..., object], Callable[[], None]], AbstractContextManager[None]] | None = None
# Where logs ended when the supervisor of this process has asked, for all of its members. Set likewise.
known_ends: Mapping[TopicPartition, LogBounds] = {}
# What the command or a member is importing now, and which of them. Main thread.
_imported: tuple[str, str] | None = None


@contextmanager
def importing(name: str, by: str = "the command") -> Iterator[None]:
    """Let no app be run while the block imports this module, which may call `app.run()` at its top level."""
    global _imported  # noqa: PLW0603 - a process imports one program
    _imported = name, by
    try:
        yield
    finally:
        _imported = None


def refuse_while_importing() -> None:
    """Raise `ConfigurationError` inside of such a block."""
    if _imported is not None:
        name, by = _imported
        raise ConfigurationError(
            f"{name} starts its app while {by} imports it to find the app: put the start under `if "
            f"__name__ == '__main__':`, or start the program with python."
        )


def stops(stop: Callable[..., object], leave: Callable[[], None]) -> AbstractContextManager[None]:
    """Call `stop` when a stop is asked for and `leave` when it is to be at once, until the block ends."""
    return (orders or stop_signals)(stop, leave)


@contextmanager
def reports_asked() -> Iterator[Callable[[], bool]]:
    """Yield what tells whether SIGUSR1 has come since it was asked last, until the block ends.

    The handler only notes it: the code that waits in the main thread reads the note. Where the program has a
    handler of its own, outside of the main thread, and on systems without that signal, it never comes.
    """
    number = getattr(signal, "SIGUSR1", None)
    is_main = threading.current_thread() is threading.main_thread()
    if number is None or not is_main or signal.getsignal(number) not in FREE:
        yield lambda: False
        return
    came: list[int] = []

    def is_asked() -> bool:
        asked = bool(came)
        came.clear()
        return asked

    with handled([number], lambda number, _frame: came.append(number)):
        yield is_asked


@contextmanager
def stop_signals(stop: Callable[[str], object], exit_now: Callable[[], None]) -> Iterator[None]:
    """Call `stop` on the first signal and `exit_now` on the next, until the block ends.

    Outside the main thread nothing is installed. Both are called between bytecodes of the main thread, so
    they may only set flags, or raise what is to reach the block.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen = 0

    def handle(number: int, _frame: FrameType | None) -> None:
        nonlocal seen
        seen += 1
        if seen == 1:
            stop(signal.Signals(number).name)
        else:
            exit_now()

    with handled(STOP_SIGNALS, handle):
        yield


@contextmanager
def handled(numbers: Iterable[int], handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Have signals handled so while the block runs, and as before afterwards. Main thread only."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
