"""A double of an app's HTTP server: the routes that the page and `ehkafka top` talk to, over canned states.

It speaks as the real one does, security headers included, and keeps what was asked of it. Made by a test on
its thread, which also changes `state` and the switches; uvicorn reads them on a thread of its own.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

import ehkafka
from ehkafka.http.measures import Rates
from ehkafka.http.panels import panels, tiles
from ehkafka.testing.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from starlette.requests import Request

PAGE: Final = Path(ehkafka.__file__).parent / "http" / "page"
TOKEN: Final = "a-token-of-tests"
HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
TICK_S: Final = 0.05
RECORDS_PER_S: Final = 220
COOKIE: Final = "ehkafka_session"


class HttpDouble:
    """What it answers with, and what it was asked."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.state = state
        self._began_s = time.time()
        self._rates = Rates()
        # Reading needs the token, as on an address that others reach.
        self.is_closed = False
        # Streams: `open`, `refused` (503), or `cut` (each ends at once).
        self.stream = "open"
        # Seconds between two states of a stream.
        self.every_s = 0.1
        # False: no answer to anything but the page's files.
        self.answers = True
        # How long an answer to `GET /state` takes.
        self.delay_s = 0.0
        # The next actions are refused with this: status and body.
        self.refusal: tuple[int, dict[str, Any]] | None = None
        # Said in previews and results, by action.
        self.sentences: dict[str, str] = {}
        self.letters: list[dict[str, Any]] | None = []
        # Posted bodies by path, in order; and the header that carried a token.
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.authorizations: list[str | None] = []
        self.events: list[dict[str, Any]] = []

    def actions(self, *, preview: bool) -> list[dict[str, Any]]:
        """Return the actions that were asked for, without or with a preview."""
        return [body for path, body in self.asked if path == "/actions" and body["preview"] is preview]

    def app(self) -> Starlette:
        """Return it as an ASGI app."""
        return Starlette(
            routes=[
                Route("/", lambda _: FileResponse(PAGE / "index.html", headers=HEADERS)),
                Mount("/page", StaticFiles(directory=PAGE)),
                Route("/state", self._state),
                Route("/events", self._stream),
                Route("/login", self._login, methods=["POST"]),
                Route("/logout", self._logout, methods=["POST"]),
                Route("/actions", self._act, methods=["POST"]),
                Route("/letters", self._letters),
                Route("/letters/redrive", self._redrive, methods=["POST"]),
            ]
        )

    def _may_read(self, request: Request) -> bool:
        return not self.is_closed or self._has_token(request)

    def _has_token(self, request: Request) -> bool:
        given = request.headers.get("authorization")
        return given == f"Bearer {TOKEN}" or request.cookies.get(COOKIE) == "in"

    def _shown(self, request: Request) -> dict[str, Any]:
        access = dict(self.state["access"])
        if access["needs_token"] and self._has_token(request):
            access |= {"may_act": True, "why_not": ""}
        state = self.state | {"access": access, "snapshot": self._running()}
        self._rates.note(state["snapshot"])
        return state | {"tiles": tiles(state, self._rates), "panels": panels(state, self._rates)}

    def _running(self) -> dict[str, Any]:
        """Return the snapshot as of now: each partition handles and receives so many records a second."""
        snapshot: dict[str, Any] = self.state["snapshot"]
        more = int(RECORDS_PER_S * (time.time() - self._began_s))
        partitions = [
            one | {"finished_records": one["finished_records"] + more} for one in snapshot["partitions"]
        ]
        sums = {
            name: snapshot[name] + more * len(partitions) for name in ("finished_records", "received_records")
        }
        return snapshot | sums | {"partitions": partitions, "taken_at_s": time.time()}

    async def _state(self, request: Request) -> Response:
        self.authorizations.append(request.headers.get("authorization"))
        await asyncio.sleep(self.delay_s)
        if not self.answers:
            return JSONResponse({"reason": "stopped", "text": "The app is stopped."}, 500)
        if not self._may_read(request):
            return JSONResponse({"reason": "token", "text": "Reading needs the token."}, 401)
        # Half of a character pair, too, which only ASCII can say.
        return Response(json.dumps(self._shown(request)), media_type="application/json")

    async def _stream(self, request: Request) -> Response:
        if self.stream == "refused" or not self.answers:
            return JSONResponse({"reason": "busy", "text": "Too many streams."}, 503)
        if not self._may_read(request):
            return JSONResponse({"reason": "token", "text": "Reading needs the token."}, 401)
        return StreamingResponse(self._lines(request), media_type="text/event-stream")

    async def _lines(self, request: Request) -> AsyncIterator[str]:
        said, due_s = len(self.events), 0.0
        while self.stream == "open" and self.answers:
            for event in self.events[said:]:
                yield f"event: event\ndata: {json.dumps(event)}\n\n"
            said = len(self.events)
            if time.monotonic() >= due_s:
                yield f"event: state\ndata: {json.dumps(self._shown(request))}\n\n"
                due_s = time.monotonic() + self.every_s
            await asyncio.sleep(TICK_S)

    async def _login(self, request: Request) -> Response:
        if (await request.json())["token"] != TOKEN:
            return JSONResponse({"reason": "token", "text": "That is not the token."}, 403)
        answer = Response(status_code=204)
        answer.set_cookie(COOKIE, "in", httponly=True, samesite="strict")
        return answer

    async def _logout(self, _request: Request) -> Response:
        answer = Response(status_code=204)
        answer.delete_cookie(COOKIE)
        return answer

    async def _act(self, request: Request) -> Response:
        asked = await request.json()
        self.asked.append(("/actions", asked))
        if not self._shown(request)["access"]["may_act"]:
            return JSONResponse({"reason": "token", "text": "Actions need the token.", "names": []}, 403)
        if self.refusal is not None:
            status, body = self.refusal
            return JSONResponse(body, status)
        text = self.sentences.get(asked["do"], f"{asked['target']} {asked['name']}: {asked['do']}.")
        result = {"text": text, "changed": True, "name": asked["name"], "records": 1}
        return JSONResponse(result | {"is_preview": asked["preview"]})

    async def _letters(self, _request: Request) -> Response:
        if self.letters is None:
            return JSONResponse({"text": "This server reads no letters."}, 501)
        found = json.dumps({"letters": self.letters, "more": False})
        return Response(found, media_type="application/json")

    async def _redrive(self, request: Request) -> Response:
        asked = await request.json()
        self.asked.append(("/letters/redrive", asked))
        if self.letters is None:
            return JSONResponse({"text": "This server reads no letters."}, 501)
        records = len(self.letters)
        return JSONResponse({"text": f"{records} letters of {asked['topic']} go home.", "records": records})


@contextmanager
def served(double: HttpDouble) -> Iterator[str]:
    """Serve it on this machine's address alone; yield the URL."""
    [port] = free_ports(1)
    config = uvicorn.Config(
        double.app(),
        host="127.0.0.1",
        port=port,
        log_level="error",
        timeout_graceful_shutdown=1,
        lifespan="off",
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, name="http-double", daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        thread.join(0.01)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        double.answers = False
        server.should_exit = True
        thread.join(10)
