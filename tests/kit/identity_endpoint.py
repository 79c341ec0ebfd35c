"""A managed-identity endpoint on this machine, as Azure App Service and Container Apps have one.

Issues the unsigned tokens that a `Listener(unsecured_tokens=True)` accepts, and an `Azurite` with a
certificate, so that azure-identity's own `ManagedIdentityCredential` is what a test runs. Can fail in the
ways that a real one does, and counts. For tests; never a model for a real one. Listens on 127.0.0.1, answers
on threads of its own; any thread may change how it answers.
"""

from __future__ import annotations

import json
import math
import secrets
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self
from urllib.parse import parse_qs, urlsplit

from tests.kit.http_server import Request, serving
from tests.kit.unsecured_token import unsecured_token

if TYPE_CHECKING:
    from types import TracebackType

    from tests.kit.http_server import Answer

API_VERSION = "2019-08-01"
PATH = "/msi/token"


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """One request as it came: when (monotonic), for what, and for which user-assigned identity."""

    at_s: float
    resource: str | None
    client_id: str | None


class IdentityEndpoint:
    """The endpoint in a context manager; `environment()` is what points a credential at it.

    ```python
    with IdentityEndpoint(life_s=30) as identity:
        for name, value in identity.environment().items():
            monkeypatch.setenv(name, value)
    ```

    azure-identity caches a token of more than 290 s and asks again only when that much is left.
    """

    def __init__(self, life_s: float = 3600.0, *, subject: str = "ehkafka") -> None:
        self.subject = subject
        self.header = secrets.token_hex(16)
        self._lock = threading.Lock()
        # Under the lock.
        self._requests: list[TokenRequest] = []
        self._issued: list[str] = []
        self._ways: dict[str | None, _Way] = {None: _Way(life_s=life_s)}
        self._port = 0
        self._open = ExitStack()
        # Lets go of those who hang, at the end.
        self._released = threading.Event()

    def __enter__(self) -> Self:
        self._port = self._open.enter_context(serving(self._answer))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._released.set()
        self._open.close()

    @property
    def url(self) -> str:
        """Where tokens are asked for."""
        return f"http://127.0.0.1:{self._port}{PATH}"

    def environment(self) -> dict[str, str]:
        """Return the environment variables by which azure-identity finds it."""
        return {"IDENTITY_ENDPOINT": self.url, "IDENTITY_HEADER": self.header}

    @property
    def requests(self) -> list[TokenRequest]:
        """All requests so far, refused ones too."""
        with self._lock:
            return list(self._requests)

    @property
    def issued(self) -> list[str]:
        """All tokens that were issued, oldest first."""
        with self._lock:
            return list(self._issued)

    # --- how it answers from now on, to all or to one user-assigned identity ------------------------

    def issue(self, life_s: float, *, after_s: float = 0.0, client_id: str | None = None) -> None:
        """Issue tokens of this life, expired ones when negative, after a delay; ends every fault."""
        self._go(_Way(life_s=life_s, delay_s=after_s), client_id)

    def fail(
        self,
        status: int = 500,
        body: str = '{"statusCode":500,"message":"try again"}',
        *,
        client_id: str | None = None,
    ) -> None:
        """Answer with this status and body: an error, or with 200 what is no token."""
        self._go(_Way(status=status, body=body), client_id)

    def hang(self, *, client_id: str | None = None) -> None:
        """Take requests and never answer them, nor after the next change: those connections are dead."""
        self._go(_Way(hangs=True), client_id)

    def _go(self, way: _Way, client_id: str | None) -> None:
        with self._lock:
            self._ways = {None: way} if client_id is None else {**self._ways, client_id: way}

    def _answer(self, request: Request) -> Answer:
        address = urlsplit(request.path)
        asked = {name: values[0] for name, values in parse_qs(address.query).items()}
        with self._lock:
            way = self._ways.get(asked.get("client_id"), self._ways[None])
            self._requests.append(
                TokenRequest(time.monotonic(), asked.get("resource"), asked.get("client_id"))
            )
        if way.hangs or way.delay_s:
            self._released.wait(None if way.hangs else way.delay_s)
        if way.hangs:
            return None
        status, body = way.status, way.body
        if not secrets.compare_digest(request.headers.get("x-identity-header", ""), self.header):
            status, body = 401, '{"statusCode":401,"message":"the header is missing or wrong"}'
        elif address.path != PATH or asked.get("api-version") != API_VERSION or not asked.get("resource"):
            status, body = 400, '{"statusCode":400,"message":"api-version or resource is missing"}'
        elif not status:
            status, body = 200, self._token(way.life_s, asked["resource"])
        return status, {"Content-Type": "application/json"}, body.encode()

    def _token(self, life_s: float, resource: str) -> str:
        # In whole seconds, as the real one does; never less than the life that was asked for.
        now_s = time.time()
        expires_on = math.ceil(now_s + life_s)
        token = unsecured_token(self.subject, expires_on - now_s, issued_at_s=now_s, audience=resource)
        with self._lock:
            self._issued.append(token)
        answer = {"access_token": token, "expires_on": str(expires_on), "resource": resource}
        return json.dumps(answer | {"token_type": "Bearer"})


@dataclass(frozen=True, slots=True)
class _Way:
    """How requests are answered."""

    life_s: float = 0.0
    delay_s: float = 0.0
    status: int = 0
    body: str = ""
    hangs: bool = False
