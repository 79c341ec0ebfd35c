"""A schema registry on this machine that answers as it is set to: Confluent's REST, or Azure's over TLS.

On 127.0.0.1, with a thread of its own; a test changes `schemas` and `status` while it runs.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.kit.http_server import Request, serving

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

    def answer(request: Request) -> Any:
        registry.asked.append((request.path, dict(request.headers)))
        return registry.answer(request.path)

    with serving(answer, certificate) as registry.port:
        yield registry
