"""Connections that say nothing, or read nothing, are closed: they would take the places of those that ask.

uvicorn waits for a request as long as its client likes; a client that sends a header a minute has all day,
and one that does not read its answer has it kept for as long.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

IDLE_S: Final = 10.0
CHECK_S: Final = 2.0


# To connections beyond the limit, whether they ask for anything or not: each takes a file descriptor, which
# the app's own connections need.
FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"connection: close\r\ncontent-length: 19\r\n\r\nService Unavailable"
)


class PatientProtocol(H11Protocol):
    """HTTP/1.1, with limits for how long a request may take to come and an answer to be read."""

    _check: asyncio.TimerHandle | None = None
    # When something of a request came last, or its answer was still being made.
    _since_s: float
    # How much of its answers the client has not taken, and when that was seen to fall last.
    _unread_bytes = 0
    _read_s: float

    def connection_made(self, transport: Any) -> None:
        """Begin to count."""
        super().connection_made(transport)
        if self.limit_concurrency is not None and len(self.connections) > self.limit_concurrency:
            transport.write(FULL)
            transport.close()
            return
        self._since_s = self._read_s = time.monotonic()
        self._check = self.loop.call_later(CHECK_S, self._check_idle)

    def connection_lost(self, exc: Exception | None) -> None:
        """End it."""
        if self._check is not None:
            self._check.cancel()
        super().connection_lost(exc)

    def _check_idle(self) -> None:
        now_s = time.monotonic()
        if self._is_deaf(now_s):
            self.transport.abort()  # to close it would wait until all is read
            return
        if self._unread_bytes or (self.cycle is not None and not self.cycle.response_complete):
            self._since_s = now_s  # it is being answered, however long that takes
        elif now_s >= self._since_s + IDLE_S:
            self.transport.close()
            return
        self._check = self.loop.call_later(CHECK_S, self._check_idle)

    def _is_deaf(self, now_s: float) -> bool:
        before, self._unread_bytes = self._unread_bytes, self.transport.get_write_buffer_size()
        if not self._unread_bytes or self._unread_bytes < before:
            self._read_s = now_s
        return now_s >= self._read_s + IDLE_S
