"""The gate by which an event loop sleeps at an exchange: whoever releases it calls the loop back.

A thread's gate is a lock that it waits for; a loop must never wait, so it publishes this one and goes on
with its other work. Released from any thread, at most once for each time that it was published: so there is
never more than one wake-up on its way.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable


class LoopGate:
    """Calls `woken` on the loop's thread when it is released."""

    def __init__(self, loop: asyncio.AbstractEventLoop, woken: Callable[[], None]) -> None:
        self._loop = loop
        self._woken = woken

    def release(self) -> None:
        """Wake the loop. Any thread, never under the exchange's lock."""
        with suppress(RuntimeError):  # the loop is closed: nobody is left to be woken
            self._loop.call_soon_threadsafe(self._woken)
