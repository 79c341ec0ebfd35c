"""An HTTP proxy before one server that makes it a bad one: refusing, slow, cut off, its answers lost.

Responsible for whole requests and answers between clients and a server, both on 127.0.0.1; it knows no
Blob Storage. One daemon thread for each connection; the public methods may be called from any thread.
"""

from __future__ import annotations

import http.client
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from tests.kit.http_server import Request, serving

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from tests.kit.http_server import Answer

UPSTREAM_TIMEOUT_S = 30.0
OF_ONE_CONNECTION = {"connection", "keep-alive", "transfer-encoding", "content-length"}


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
        self._open = ExitStack()
        self._port = 0

    def __enter__(self) -> Self:
        self._port = self._open.enter_context(serving(self._answer, keeps_open=True))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.heal()
        self._open.close()

    @property
    def address(self) -> str:
        """`host:port`, to be used in place of the server's."""
        return f"127.0.0.1:{self._port}"

    def heal(self) -> None:
        """Let all be well again, and what waits go on."""
        self.fault = lambda _request: None
        self._released.set()
        self._released = threading.Event()

    def _answer(self, request: Request) -> Answer:
        fault = self.fault(request) or Fault()
        if fault.latency_s:
            self._released.wait(fault.latency_s)
        answer: Answer = None
        if fault.status is not None:
            answer = fault.status, {"x-ms-error-code": fault.code} if fault.code else {}, b""
        elif not fault.cut:
            answer = self._forwarded(request)
        if fault.cut or fault.lose_answer:
            answer = None
        self.seen.append((request, answer and answer[0]))
        return answer

    def _forwarded(self, request: Request) -> Answer:
        host, _, port = self.upstream.rpartition(":")
        upstream = http.client.HTTPConnection(host, int(port), timeout=UPSTREAM_TIMEOUT_S)
        headers = {name: value for name, value in request.headers.items() if name not in OF_ONE_CONNECTION}
        try:
            upstream.putrequest(request.method, request.path, skip_host=True, skip_accept_encoding=True)
            for name, value in {**headers, "content-length": str(len(request.body))}.items():
                upstream.putheader(name, value)
            upstream.endheaders(request.body or None)
            answer = upstream.getresponse()
            kept = {n: v for n, v in answer.getheaders() if n.lower() not in OF_ONE_CONNECTION}
            return answer.status, kept, answer.read()
        except OSError:
            return 502, {}, b""  # as a gateway says it when the server is away
        finally:
            upstream.close()
