"""An HTTP proxy before one server that makes it a bad one: refusing, slow, cut off, its answers lost.

Responsible for whole requests and answers between clients and a server, both on 127.0.0.1; it knows no
Blob Storage. One daemon thread for each connection; the public methods may be called from any thread.
"""

from __future__ import annotations

import http.client
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

HOST = "127.0.0.1"
UPSTREAM_TIMEOUT_S = 30.0
_OF_ONE_CONNECTION = {"connection", "keep-alive", "transfer-encoding", "content-length"}


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asked for."""

    method: str
    path: str
    # Names in lower case.
    headers: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Fault:
    """What becomes of a request: first it waits, then it is answered here, or cut, or passed on.

    `status` is answered instead of the server's, with `code` as Blob Storage gives its own. `cut` closes
    the connection; with `lose_answer` the server still gets the request, and only its answer is lost.
    """

    latency_s: float = 0.0
    status: int | None = None
    code: str = ""
    cut: bool = False
    lose_answer: bool = False


class HttpProxy:
    """Listens on a free port and forwards to `upstream` (`host:port`).

    `fault` is asked for each request and answers None where all is well. `seen` are the requests that
    were answered, with the status; `None` where the connection was cut.
    """

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        # Set by a test, read by the connections' threads.
        self.fault: Callable[[Request], Fault | None] = lambda _request: None
        # Appended by the connections' threads.
        self.seen: list[tuple[Request, int | None]] = []
        self._released = threading.Event()
        self._server = _Server((HOST, 0), _Connection)
        self._server.proxy = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.heal()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def address(self) -> str:
        """`host:port`, to be used in place of the server's."""
        return f"{HOST}:{self._server.server_address[1]}"

    def heal(self) -> None:
        """Let all be well again, and what waits go on."""
        self.fault = lambda _request: None
        self._released.set()
        self._released = threading.Event()

    def wait(self, latency_s: float) -> None:
        """Hold a request back until its time is over or the proxy is healed."""
        self._released.wait(latency_s)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    proxy: HttpProxy

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class _Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def parse_request(self) -> bool:
        """Have every method answered by one function."""
        if not super().parse_request():
            return False
        setattr(self, f"do_{self.command}", self._serve)
        return True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the library's
        """Nobody reads it."""

    def _serve(self) -> None:
        named = {name.lower(): value for name, value in self.headers.items()}
        proxy, request = self.server.proxy, Request(self.command, self.path, named)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = proxy.fault(request)
        if fault is not None and fault.latency_s:
            proxy.wait(fault.latency_s)
        if fault is not None and (fault.cut or fault.lose_answer):
            if fault.lose_answer:
                self._forward(body)
            proxy.seen.append((request, None))
            self.close_connection = True
        elif fault is not None and fault.status is not None:
            proxy.seen.append((request, fault.status))
            self._answer(fault.status, [("x-ms-error-code", fault.code)] if fault.code else [], b"")
        else:
            status, headers, answer = self._forward(body)
            proxy.seen.append((request, status))
            self._answer(status, headers, answer)

    def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        host, _, port = self.server.proxy.upstream.rpartition(":")
        upstream = http.client.HTTPConnection(host, int(port), timeout=UPSTREAM_TIMEOUT_S)
        try:
            upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in {"connection", "keep-alive"}:
                    upstream.putheader(name, value)
            upstream.endheaders(body or None)
            answer = upstream.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        except OSError:
            return 502, [], b""  # as a gateway says it when the server is away
        finally:
            upstream.close()

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        with suppress(OSError):  # the client has gone meanwhile
            self.send_response_only(status)
            for name, value in headers:
                if name.lower() not in _OF_ONE_CONNECTION:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)
