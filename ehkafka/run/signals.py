"""Signals: the first asks for a stop as the settings have it, the second to exit at once.

Taken only by `App.run` in the main thread; an app inside another framework's lifespan leaves them alone. In a
member of a supervisor that one decides, and this process's own signals are no matter of the app's.
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from types import FrameType

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)

# What a member's supervisor orders, in the shape of `stop_signals`; None where there is none. Set once,
# before the user's code is imported.
orders: Callable[[Callable[..., object], Callable[[], None]], AbstractContextManager[None]] | None = None


def stops(stop: Callable[..., object], leave: Callable[[], None]) -> AbstractContextManager[None]:
    """Call `stop` when a stop is asked for and `leave` when it is to be at once, until the block ends."""
    return (orders or stop_signals)(stop, leave)


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

    before = {number: signal.signal(number, handle) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
