"""An HTTP server on this machine that answers by a function: what the doubles of services stand on.

On 127.0.0.1, with a daemon thread for each connection; the function is called on these.
"""

from __future__ import annotations

import ssl
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import trustme

    # Status, headers and body; None cuts the connection.
    Answer = tuple[int, Mapping[str, str], bytes] | None


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asked for."""

    method: str
    path: str
    # Names in lower case.
    headers: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    body: bytes = field(default=b"", compare=False, repr=False)


@contextmanager
def serving(
    answer: Callable[[Request], Answer],
    certificate: trustme.LeafCert | None = None,
    *,
    keeps_open: bool = False,
) -> Iterator[int]:
    """Serve, with TLS where there is a certificate; the value is the port. `keeps_open`: connections."""

    class Connection(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1" if keeps_open else "HTTP/1.0"

        def parse_request(self) -> bool:
            """Have every method answered by one function."""
            if not super().parse_request():
                return False
            setattr(self, f"do_{self.command}", self.serve)
            return True

        def serve(self) -> None:
            """Answer one request."""
            named = {name.lower(): value for name, value in self.headers.items()}
            body = self.rfile.read(int(named.get("content-length") or 0))
            answered = answer(Request(self.command, self.path, named, body))
            if answered is None:
                self.close_connection = True
                return
            status, headers, content = answered
            with suppress(OSError):  # the client has gone meanwhile
                self.send_response_only(status)
                for name, value in {**headers, "Content-Length": str(len(content))}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

        def log_message(self, *_arguments: Any) -> None:
            """Print nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, *_arguments: Any) -> None:
            """A client that went away is no news."""

    server = Server(("127.0.0.1", 0), Connection)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate.configure_cert(context)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), name="http-double", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
