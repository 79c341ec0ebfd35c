"""The one port of a supervisor, as a client with the token asks it."""

from __future__ import annotations

import http.client
import json
from typing import Any

TOKEN = "a-token-of-24-characters"


class Port:
    """The supervisor's server."""

    def __init__(self, port: int) -> None:
        self.port = port

    def ask(self, path: str, body: Any = None) -> tuple[int, Any]:
        """Return status and what is there."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20.0)
        headers = {"content-type": "application/json", "authorization": f"Bearer {TOKEN}"}
        try:
            method = "GET" if body is None else "POST"
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            content = answer.read()
            return answer.status, json.loads(content) if content[:1] in b"{[" else content.decode()
        finally:
            connection.close()
