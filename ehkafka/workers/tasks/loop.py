"""Which event loop is made for coroutines: uvloop's where it is installed."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
from typing import TYPE_CHECKING

from ehkafka.settings.clock import REAL_CLOCK

if TYPE_CHECKING:
    from ehkafka.settings.clock import Clock


def new_loop(clock: Clock = REAL_CLOCK) -> asyncio.AbstractEventLoop:
    """Return a new event loop, whose timers go by a clock. uvloop comes with the extra `ehkafka[uvloop]`."""
    if clock is not REAL_CLOCK:
        return _loop_by(clock)
    try:
        uvloop = importlib.import_module("uvloop")
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def _loop_by(clock: Clock) -> asyncio.AbstractEventLoop:
    # uvloop's has its time from the system alone.
    loop = asyncio.new_event_loop()
    loop.time = clock.now_s  # type: ignore[method-assign]

    def check_again() -> None:
        # It may close at the same time: then nothing waits there any more.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(lambda: None)

    end = clock.on_jump(check_again)
    close = loop.close

    def close_and_end() -> None:
        end()
        close()

    loop.close = close_and_end  # type: ignore[method-assign]
    return loop
