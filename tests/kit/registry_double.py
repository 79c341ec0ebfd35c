"""A schema registry on this machine that answers as it is set to: Confluent's REST, or Azure's over TLS.

On 127.0.0.1, with a thread of its own; a test changes `schemas` and `status` while it runs.
"""

from __future__ import annotations

import json
import ssl
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    import trustme

AZURE = "/$schemaGroups/$schemas/"
CONFLUENT = "/schemas/ids/"


class RegistryDouble:
    """What it answers with, and what it was asked."""

    def __init__(self) -> None:
        # By id: the format as Azure writes it, and the schema.
        self.schemas: dict[str, tuple[str, str]] = {}
        # Above 200 every answer is this one.
        self.status = 200
        # In place of the JSON that Confluent's answers are.
        self.garbage = b""
        # Paths and the headers that came with them.
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.port = 0

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body."""
        if self.status != 200:
            return self.status, {"Content-Type": "text/plain"}, b"hunter2 is not to be shown"
        if self.garbage:
            return 200, {"Content-Type": "text/html"}, self.garbage
        plain = path.partition("?")[0]
        if plain.startswith(AZURE):
            return self._azure(plain.removeprefix(AZURE))
        if plain.startswith(CONFLUENT):
            return self._confluent(plain.removeprefix(CONFLUENT))
        missing = {"error_code": 40401, "message": "no such subject"}
        return 404, {"Content-Type": "application/json"}, json.dumps(missing).encode()

    def _azure(self, schema_id: str) -> tuple[int, dict[str, str], bytes]:
        if schema_id not in self.schemas:
            error = {"error": {"code": "ItemNotFound", "message": "no such schema"}}
            return 404, {"Content-Type": "application/json"}, json.dumps(error).encode()
        kind, schema = self.schemas[schema_id]
        headers = {
            "Content-Type": f"application/json; serialization={kind}",
            "Schema-Id": schema_id,
            "Schema-Group-Name": "group",
            "Schema-Name": "readings",
            "Schema-Version": "1",
        }
        return 200, headers, schema.encode()

    def _confluent(self, schema_id: str) -> tuple[int, dict[str, str], bytes]:
        if schema_id not in self.schemas:
            error = {"error_code": 40403, "message": "no such schema"}
            return 404, {"Content-Type": "application/json"}, json.dumps(error).encode()
        kind, schema = self.schemas[schema_id]
        body = json.dumps({"schema": schema, "schemaType": kind.upper()}).encode()
        return 200, {"Content-Type": "application/json"}, body


@contextmanager
def running_registry(certificate: trustme.LeafCert | None = None) -> Iterator[RegistryDouble]:
    """Run one, with TLS where it has a certificate."""
    registry = RegistryDouble()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            registry.asked.append((self.path, dict(self.headers)))
            status, headers, body = registry.answer(self.path)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate.configure_cert(context)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    registry.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), name="registry-double", daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join(5.0)
        server.server_close()
