"""Signals: the first asks for a stop as the settings have it, the second to exit at once.

Taken only by `App.run` in the main thread; an app inside another framework's lifespan leaves them alone.
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


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
