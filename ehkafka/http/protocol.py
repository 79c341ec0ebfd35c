"""Connections that say nothing, or read nothing, are closed: they would take the places of those that ask.

uvicorn waits for a request as long as its client likes; a client that sends a header a minute has all day,
and one that does not read its answer has it kept for as long. Where all places are taken, a new connection
gets that of the one that has waited longest for its client; where all are being answered, only probes are.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import PlainTextResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

from ehkafka.http.access import PROBES

if TYPE_CHECKING:
    import asyncio

    from starlette.types import ASGIApp, Receive, Scope, Send

IDLE_S: Final = 10.0
CHECK_S: Final = 2.0
CONNECTIONS_MAX: Final = 256
"""How many connections there may be; a quarter of the process's file descriptors if that is less."""
FOR_PROBES: Final = 32
"""How many more there may be, which are answered probes only."""


class PatientProtocol(H11Protocol):
    """HTTP/1.1, with limits for how long a request may take to come and an answer to be read."""

    _check: asyncio.TimerHandle | None = None
    # When something of a request came last, or its answer was still being made.
    since_s: float
    # How much of its answers the client has not taken, and when that was seen to fall last.
    _unread_bytes = 0
    _read_s: float

    def connection_made(self, transport: Any) -> None:
        """Begin to count."""
        super().connection_made(transport)
        self.since_s = self._read_s = time.monotonic()
        if (excess := len(self.connections) - connections_max()) > 0 and not self._takes_a_place():
            if excess > FOR_PROBES:
                transport.abort()
                return
            self.app = _only_probes(self.app)
        self._check = self.loop.call_later(CHECK_S, self._check_idle)

    def connection_lost(self, exc: Exception | None) -> None:
        """End it."""
        if self._check is not None:
            self._check.cancel()
        super().connection_lost(exc)

    def _takes_a_place(self) -> bool:
        """Close the connection that has waited longest for its client; tell whether there was one."""
        others: set[Any] = self.connections - {self}
        waiting = [one for one in others if one.waits_for_client()]
        if not waiting:
            return False
        longest = min(waiting, key=lambda one: one.since_s)
        self.connections.discard(longest)
        longest.transport.abort()
        return True

    def waits_for_client(self) -> bool:
        """Tell whether no whole request is being answered."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def _check_idle(self) -> None:
        now_s = time.monotonic()
        if self._is_deaf(now_s):
            self.transport.abort()  # to close it would wait until all is read
            return
        if self._unread_bytes or (self.cycle is not None and not self.cycle.response_complete):
            self.since_s = now_s  # it is being answered, however long that takes
        elif now_s >= self.since_s + IDLE_S:
            self.transport.close()
            return
        self._check = self.loop.call_later(CHECK_S, self._check_idle)

    def _is_deaf(self, now_s: float) -> bool:
        before, self._unread_bytes = self._unread_bytes, self.transport.get_write_buffer_size()
        if not self._unread_bytes or self._unread_bytes < before:
            self._read_s = now_s
        return now_s >= self._read_s + IDLE_S


def connections_max() -> int:
    """Return how many connections may be open: the app needs file descriptors for its own."""
    try:
        import resource  # noqa: PLC0415 - only POSIX has it
    except ImportError:
        return CONNECTIONS_MAX
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return CONNECTIONS_MAX if files == resource.RLIM_INFINITY else min(CONNECTIONS_MAX, files // 4)


def _only_probes(app: ASGIApp) -> ASGIApp:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        full = PlainTextResponse("Service Unavailable", 503)
        await (app if scope.get("path") in PROBES else full)(scope, receive, send)

    return answer
