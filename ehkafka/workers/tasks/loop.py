"""Which event loop asyncio workers run on (uvloop's where it is installed), and who ended it."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
from typing import TYPE_CHECKING

from ehkafka.errors import HandlerFailedError, describe
from ehkafka.settings.clock import REAL_CLOCK
from ehkafka.wording.error_stack import place_of

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


def stopped_loop(handler: str, error: BaseException) -> HandlerFailedError | None:
    """Return what to tell of a loop that its handler's own code ended; None for a defect of ours.

    Our tasks let nothing through that is no `Exception`, and nothing of ours stops the loop.
    """
    is_stop = isinstance(error, RuntimeError) and "loop stopped before" in str(error)
    if isinstance(error, Exception) and not is_stop:
        return None
    how = "loop.stop() was called there" if is_stop else describe(error)
    place = place_of(error)
    failure = HandlerFailedError(
        f"Code that handler {handler!r} runs ended its event loop: {how}{f' at {place}' if place else ''}. "
        "Records that ran are not committed and are handled again at the next start. Leave the loop to the "
        "app; app.stop() ends it in good order."
    )
    failure.__cause__ = error
    return failure
