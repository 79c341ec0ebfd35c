"""One way to ask an app's own server."""

from __future__ import annotations

import http.client
import json
from typing import Any

TOKEN = "a-token-of-24-characters"


def ask(port: int, path: str, body: Any = None, **headers: str) -> tuple[int, bytes, str]:
    """Return status, body and all headers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10.0)
    try:
        payload = None if body is None else json.dumps(body)
        connection.request(
            "GET" if body is None else "POST", path, payload, {"content-type": "application/json", **headers}
        )
        answer = connection.getresponse()
        return answer.status, answer.read(), str(answer.getheaders())
    finally:
        connection.close()
