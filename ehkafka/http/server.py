"""The server: a socket that is bound before anything starts, and a thread of its own with an event loop.

The thread takes no signals, and only a stop waits for it, for a moment.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from typing import TYPE_CHECKING, Any, Final

import uvicorn

from ehkafka.errors import ConfigurationError
from ehkafka.http.measures import EVERY_S
from ehkafka.http.protocol import PatientProtocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.http.options import Http

# New connections that the loop takes before it looks at how many there are, and as many wait outside.
BACKLOG: Final = 32
STOP_S: Final = 3.0
_LOG = logging.getLogger(__name__)
_UVICORN_LOG = logging.getLogger("uvicorn.error")


class HttpServer:
    """Made before the app starts: it binds then. `start` and `stop` once each."""

    def __init__(self, options: Http) -> None:
        """Bind. Raises `ConfigurationError` for an address that cannot be taken."""
        self._socket = _bound(options)
        self.port: int = self._socket.getsockname()[1]
        host = f"[{options.host}]" if ":" in options.host else options.host
        self.url = f"http://{host}:{self.port}"
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    def start(self, application: Any, sample: Callable[[], object] = lambda: None) -> None:
        """Serve an ASGI application; `sample` is called every few seconds, whatever is asked."""
        config = uvicorn.Config(
            application,
            http=PatientProtocol,
            ws="none",
            loop="asyncio",
            lifespan="off",
            # None leaves uvicorn's logging as the program has it.
            log_config=None,
            access_log=False,
            server_header=False,
            backlog=BACKLOG,
            timeout_keep_alive=10,
            timeout_graceful_shutdown=1,
            h11_max_incomplete_event_size=16_384,
        )
        self._server = server = uvicorn.Server(config)

        def serve() -> None:
            left_out = _InfoOfThread(threading.get_ident())
            _UVICORN_LOG.addFilter(left_out)
            try:
                asyncio.run(_served(server, self._socket, sample))
            except BaseException:  # the app goes on; clients see that its page is gone
                _LOG.exception("The HTTP server on %s has ended.", self.url)
            finally:
                _UVICORN_LOG.removeFilter(left_out)
                self._socket.close()  # else clients would wait for an answer

        self._thread = threading.Thread(target=serve, name="ehkafka-http", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it: streams end at once, answers that are on their way have a second."""
        if self._server is not None:
            self._server.should_exit = True
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(STOP_S)
        self._socket.close()

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is this server's."""
        return thread is self._thread


class _InfoOfThread(logging.Filter):
    """Leaves out what one server says of its start and end, which says to press Ctrl-C: `HttpServing` does.

    Warnings and errors stay, and all that a server of the program's own says on another thread.
    """

    def __init__(self, thread: int) -> None:
        super().__init__()
        self._thread = thread

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether a line is written."""
        return record.levelno != logging.INFO or record.thread != self._thread


async def _served(server: uvicorn.Server, at: socket.socket, sample: Callable[[], object]) -> None:
    async def go_on() -> None:
        while True:
            try:
                await asyncio.to_thread(sample)
            except Exception:  # the plots have a gap, and the next sample is tried
                _LOG.exception("The app could not be looked at for the page's plots.")
            await asyncio.sleep(EVERY_S)

    sampling = asyncio.create_task(go_on())
    try:
        await server.serve(sockets=[at])
    finally:
        sampling.cancel()


def _bound(options: Http) -> socket.socket:
    where = f"{options.host}:{options.port}"
    try:
        [family, kind, protocol, _, address], *_ = socket.getaddrinfo(
            options.host, options.port, type=socket.SOCK_STREAM
        )
    except OSError as error:
        raise ConfigurationError(
            f"http: {where} is not an address of this machine ({error.strerror}): correct http=."
        ) from None
    found = socket.socket(family, kind, protocol)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(BACKLOG)
    except OSError as error:
        found.close()
        raise ConfigurationError(
            f"http: cannot listen on {where}: {error.strerror}. Another process may use the port: choose "
            "another port, or 0 for any free port. Nothing was started."
        ) from None
    found.setblocking(False)
    return found
