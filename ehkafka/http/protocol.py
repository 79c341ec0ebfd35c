"""Connections that say nothing are closed: they would take the places of those that ask.

uvicorn waits for a request as long as its client likes; a client that sends a header a minute has all day.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

IDLE_S: Final = 10.0
CHECK_S: Final = 2.0


class PatientProtocol(H11Protocol):
    """HTTP/1.1, with a limit for how long a request may take to come."""

    _since_s: float
    _check: asyncio.TimerHandle

    def connection_made(self, transport: Any) -> None:
        """Begin to count."""
        super().connection_made(transport)
        self._since_s = time.monotonic()
        self._check = self.loop.call_later(CHECK_S, self._check_idle)

    def connection_lost(self, exc: Exception | None) -> None:
        """End it."""
        self._check.cancel()
        super().connection_lost(exc)

    def _check_idle(self) -> None:
        now_s = time.monotonic()
        if self.cycle is not None and not self.cycle.response_complete:
            self._since_s = now_s  # it is being answered, however long that takes
        elif now_s >= self._since_s + IDLE_S:
            self.transport.close()
            return
        self._check = self.loop.call_later(CHECK_S, self._check_idle)
