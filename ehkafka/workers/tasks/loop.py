"""Which event loop asyncio workers run on (uvloop's where it is installed), and who ended it."""

from __future__ import annotations

import asyncio
import importlib

from ehkafka.errors import HandlerFailedError, describe
from ehkafka.wording.error_stack import place_of


def new_loop() -> asyncio.AbstractEventLoop:
    """Return a new event loop. uvloop comes with the extra `ehkafka[uvloop]`."""
    try:
        uvloop = importlib.import_module("uvloop")
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
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
