"""Hostile HTTP requests to an app's own pages: any path, headers and body, with the token and without."""

from __future__ import annotations

import asyncio
import json
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ehkafka.http.application import application
from ehkafka.http.journal import Journal
from ehkafka.http.options import Http
from ehkafka.http.state import State
from ehkafka.run.steer.action import Action, ActionResult
from ehkafka.settings.secret import Secret
from ehkafka.telemetry.snapshot import Health, Snapshot
from tests.kit.fuzz.target import Target, any_text, any_value, damaged

if TYPE_CHECKING:
    import random

_TOKEN = "a-token-of-24-characters"
# Not `/events`: its answer has no end.
_PATHS = (
    "/", "/live", "/ready", "/health", "/metrics", "/snapshot", "/state", "/actions", "/letters",
    "/letters/redrive", "/login", "/logout", "/page/page.js", "/page/../server.py", "/page/%2e%2e/x",
)  # fmt: skip
_ACTION = {"do": "skip", "target": "key", "name": "readings/3@7", "offset": 7, "all": False, "preview": True}
_NO_STATUS = 0


class Request(NamedTuple):
    """As a server hands it to an ASGI application."""

    method: str
    path: str
    query: bytes
    headers: list[tuple[bytes, bytes]]
    body: list[bytes]
    has_token: bool


def _act(asked: dict[str, Any]) -> ActionResult:
    action = Action.of(asked)
    return ActionResult("done.", changed=True, name=action.name)


@cache
def _served() -> tuple[Any, asyncio.AbstractEventLoop]:
    """Return the application of an app that does what it is asked, and a loop for it."""
    served: Any = SimpleNamespace(
        state="running",
        letter_topics=(),
        mirror=None,
        keys=SimpleNamespace(waiting=lambda *, values=False: [], act=_act),
        snapshot=lambda: Snapshot.empty("group", "broker", "running", 1.0),
        health=Health,
        current_run=SimpleNamespace(not_live=tuple, not_started=tuple, not_ready=tuple),
    )
    options, journal = Http(address="127.0.0.1:8080"), Journal()
    state = State(served, journal, version="1", shows_values=False)
    metrics = lambda _accept: (b"up 1\n", "text/plain")  # noqa: E731
    return application(options, Secret(_TOKEN), served, state, journal, metrics), asyncio.new_event_loop()


def _request(rng: random.Random) -> Request:
    action = dict(_ACTION)
    for name in rng.sample(list(action), rng.randrange(3)):
        action[name] = any_value(rng)
    body = json.dumps(rng.choice((action, action, {"token": any_value(rng)}, any_value(rng)))).encode()
    if rng.random() < 0.3:
        body = damaged(rng, body, b'{}[]":,\\u')
    has_token = rng.random() < 0.7
    headers = [(b"host", b"127.0.0.1:8080"), (b"content-type", b"application/json")]
    headers += [(b"authorization", b"Bearer " + _TOKEN.encode())] * has_token
    for _ in range(rng.choice((0, 0, 1, 2))):
        names = (
            b"host",
            b"cookie",
            b"authorization",
            b"origin",
            b"content-type",
            b"accept",
            b"sec-fetch-site",
        )
        headers.append((rng.choice(names), rng.randbytes(rng.randrange(20)).replace(b"\n", b"")))
    path = rng.choice(_PATHS) if rng.random() < 0.9 else "/" + any_text(rng)
    size = rng.choice((1, 7, len(body) + 1, len(body) + 1))
    pieces = [body[at : at + size] for at in range(0, len(body), size)] or [b""]
    query = rng.choice((b"", b"limit=" + rng.randbytes(4), b"topic=%ff&limit=9", b"limit=" + b"9" * 5_000))
    return Request(
        rng.choice(("GET", "POST", "POST", "HEAD", "PUT")), path, query, headers, pieces, has_token
    )


def _judge(request: Request) -> bool:
    application, loop = _served()
    status, body = loop.run_until_complete(_answer(application, request))
    # A letter's topic that is not the app's is refused; 502 and 503 are answers in words as well.
    assert status != 500, body
    assert 200 <= status < 600
    assert _TOKEN.encode() not in body, "the answer has the token"
    assert b"Traceback" not in body, "the answer has a stack"
    acts = request.method == "POST" and request.path in {"/actions", "/letters/redrive", "/logout"}
    assert request.has_token or not acts or status >= 400, "acts without the token"
    return status < 400


async def _answer(application: Any, request: Request) -> tuple[int, bytes]:
    """Return status and body of the answer. Raises what the application does."""
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": request.path,
        "raw_path": request.path.encode("utf-8", "surrogateescape" if request.path.isascii() else "replace"),
        "query_string": request.query,
        "headers": request.headers,
        "client": ("127.0.0.1", 5_000),
        "server": ("127.0.0.1", 8_080),
        "root_path": "",
    }
    parts = [*request.body]
    status, found = _NO_STATUS, b""

    async def receive() -> dict[str, Any]:
        if not parts:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

    async def send(message: dict[str, Any]) -> None:
        nonlocal status, found
        if message["type"] == "http.response.start":
            status = message["status"]
        found += message.get("body", b"")

    await application(scope, receive, send)
    return status, found


TARGET: Final = Target("HTTP requests to an app", _request, _judge, 300)
