"""Access: whose request it is, from where, and what it may. Stands before all routes.

| path | who may |
|---|---|
| probes, `/metrics` | everybody: a kubelet and a Prometheus have no token and call the pod by its address |
| what `/health` finds wrong | as what is read; else only how many problems there are |
| what is read | off loopback who has the token; a page from elsewhere never |
| actions | who has the token |

The token comes as `Authorization: Bearer …`, or as the cookie that `/login` trades for it: an event stream of
a browser can send no header. It is in no address, where logs would keep it. An address that has given
wrong tokens is not heard for a while, whichever it gives next.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
import socket
import time
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import HTTPConnection
from starlette.responses import FileResponse, JSONResponse

from ehkafka.http.options import TOKEN_FILE_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping
    from pathlib import Path

    from starlette.datastructures import Headers
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

    from ehkafka.http.options import Http
    from ehkafka.settings.secret import Secret

PROBES: Final = frozenset({"/live", "/ready", "/startup", "/health"})
OPEN: Final = PROBES | {"/metrics"}
# What says nothing of the app: the page's own files, and the way to a cookie.
PUBLIC: Final = "/page/"
LOGIN: Final = "/login"
SESSION_S: Final = 12 * 3600.0
SESSIONS_MAX: Final = 100
# Wrong tokens of one address within a minute; addresses that are remembered.
WRONG_MAX: Final = 10
WRONG_S: Final = 60.0
ADDRESSES_MAX: Final = 1_000
HOW_TO: Final = (
    f"Start the app with a token in EHKAFKA_HTTP_TOKEN, {TOKEN_FILE_VARIABLE} or --http-token-file. "
    "`ehkafka keys` reads the same variables; other programs send `Authorization: Bearer …`."
)
WITHOUT_TOKEN: Final = (
    401,
    "token",
    "This request needs the token: enter the token on the page, or send `Authorization: Bearer …`.",
)
UNKNOWN_HOST: Final = (
    421,
    "host",
    (
        "This server is not known by that host name. Call it by its address, or name it with "
        "--http-host or EHKAFKA_HTTP_HOSTS."
    ),
)
TOO_MANY: Final = (429, "token", "Too many wrong tokens came from this address. Try again in a minute.")
# Where a request's scope has whether it carries the token.
HAS_TOKEN: Final = "ehkafka.has_token"  # noqa: S105 - the name of a fact
HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


class Sessions:
    """Cookies that stand for the token, each for some hours. One event loop's."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._until_s: dict[str, float] = {}

    def open(self) -> str:
        """Return a new one; past a number the oldest ends."""
        session = secrets.token_urlsafe(32)
        self._until_s[session] = self._now_s() + SESSION_S
        while len(self._until_s) > SESSIONS_MAX:
            del self._until_s[next(iter(self._until_s))]
        return session

    def close(self, session: str) -> None:
        """End one."""
        self._until_s.pop(session, None)

    def is_open(self, session: str) -> bool:
        """Tell whether it is one of ours and not over."""
        until_s = self._until_s.get(session)
        return until_s is not None and until_s > self._now_s()


class WrongTokens:
    """How many wrong tokens each address has given. One event loop's."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        # By address: how many, and until when they count.
        self._counted: dict[str, tuple[int, float]] = {}

    def note(self, address: str) -> None:
        """Count one; past a number of addresses the one counted first is forgotten."""
        count, until_s = self._of(address)
        self._counted[address] = count + 1, until_s
        if len(self._counted) > ADDRESSES_MAX:
            del self._counted[next(iter(self._counted))]

    def are_too_many(self, address: str) -> bool:
        """Tell whether an address has to wait."""
        return self._of(address)[0] >= WRONG_MAX

    def _of(self, address: str) -> tuple[int, float]:
        now_s = self._now_s()
        count, until_s = self._counted.get(address, (0, 0.0))
        return (count, until_s) if now_s < until_s else (0, now_s + WRONG_S)


class AccessRules:
    """The rules of one server."""

    def __init__(self, options: Http, token: Secret | None) -> None:
        self._token = token
        self.sessions = Sessions()
        self._wrong = WrongTokens()
        self._is_loopback = options.is_loopback
        self._names = {name.lower() for name in (*options.names, "localhost")}
        if not options.is_loopback:
            self._names |= {options.host.lower(), socket.gethostname().lower()}
        # Browsers send a cookie to all ports of a host: each app has a name of its own for it.
        self.cookie = f"ehkafka-{options.port}" if options.port else f"ehkafka-{secrets.token_hex(4)}"

    def session_of(self, request: HTTPConnection) -> str:
        """Return the session that a request's cookie names, if any."""
        return request.cookies.get(self.cookie, "")

    def is_token(self, given: str, address: str) -> bool | None:
        """Tell whether it is the token, in a time that shows nothing of it. None: the address has to wait."""
        if self._wrong.are_too_many(address):
            return None
        if self._token is None:
            return False
        one, other = (hashlib.sha256(text.encode()).digest() for text in (given, self._token.reveal()))
        if hmac.compare_digest(one, other):
            return True
        self._wrong.note(address)
        return False

    def has_token(self, request: HTTPConnection) -> bool | None:
        """Tell whether a request carries the token, or the cookie for it. None: its address has to wait."""
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self.is_token(given.strip(), address_of(request.scope))
        return self.sessions.is_open(self.session_of(request))

    def described(self, request: Request) -> dict[str, Any]:
        """Return what a request may, for the page."""
        may_act = bool(request.scope[HAS_TOKEN])
        why_not = (
            "" if may_act else "Actions need the token." if self._token else f"No token is set. {HOW_TO}"
        )
        return {"needs_token": self._token is not None, "may_act": may_act, "why_not": why_not}

    def may_read(self, request: Request) -> bool:
        """Tell whether a request may have what the page shows."""
        return self.refusal("GET", "/state", request.headers, has_token=request.scope[HAS_TOKEN]) is None

    def refusal(
        self, method: str, path: str, headers: Headers, *, has_token: bool | None
    ) -> tuple[int, str, str] | None:
        """Return status, reason and text of why a request is refused; None where it may go on."""
        reads = method in ("GET", "HEAD")
        if path in OPEN:
            return None if reads else (405, "method", "Only GET is answered here.")
        if not self._knows(headers.get("host", "")):
            return UNKNOWN_HOST
        if not _is_own(headers):
            return 403, "origin", "Only this server's own page may ask this."
        if not reads and headers.get("content-type", "").partition(";")[0] != "application/json":
            return 415, "content", "Send JSON, with content-type: application/json."
        if has_token is None:
            return TOO_MANY
        if path.startswith(PUBLIC) or path == LOGIN:
            return None
        if reads and self._is_loopback:
            return None
        if self._token is None:
            return 403, "token", f"This request needs a token, but this app has none. {HOW_TO}"
        return None if has_token else WITHOUT_TOKEN

    def _knows(self, host: str) -> bool:
        """Tell whether a Host header names this server: a name that is only pointed at it does not."""
        name = host.rpartition("@")[2].lower()
        if name.startswith("["):
            name = name.partition("]")[0][1:]
        elif name.count(":") == 1:
            name = name.partition(":")[0]
        if name in self._names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        # No DNS leads to an address. From elsewhere loopback is not reached by another one.
        return address.is_loopback or not self._is_loopback


def _is_own(headers: Headers) -> bool:
    """Tell whether a request comes from this server's page, or from no page at all."""
    if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        return False
    origin = headers.get("origin")
    if origin is None:
        return True
    scheme, _, where = origin.partition("://")
    return scheme in ("http", "https") and where.lower() == headers.get("host", "").lower()


def address_of(scope: Scope) -> str:
    """Return where a request comes from, as far as that is known."""
    client = scope.get("client")
    return "" if client is None else str(client[0])


class Guarded:
    """The ASGI middleware: refuses by `AccessRules`, and adds the headers to every answer."""

    def __init__(self, app: ASGIApp, access: AccessRules, page: Path) -> None:
        """`page` asks for the token where it is needed."""
        self._app = app
        self._access = access
        self._page = page
        self._headers = [(name.encode(), value.encode()) for name, value in HEADERS.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *self._headers]
            await send(message)

        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return
        # As the routes see it: below where the user's own app has mounted this one.
        path = scope["path"].removeprefix(scope.get("root_path", "")) or "/"
        request = HTTPConnection(scope)
        scope[HAS_TOKEN] = has_token = self._access.has_token(request)
        refused = self._access.refusal(scope["method"], path, request.headers, has_token=has_token)
        if refused is None:
            await self._app(scope, receive, send_with_headers)
            return
        status, reason, text = refused
        answer: Response = JSONResponse({"reason": reason, "text": text}, status)
        if (path, status) == ("/", 401):
            answer = FileResponse(self._page, status)
        await answer(scope, receive, send_with_headers)
