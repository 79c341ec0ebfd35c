"""The page's server: read-only, on 127.0.0.1, nothing from elsewhere. `python -m home_pipeline.page.server`.

What comes in an address is hostile: a home's name is matched whole before anything looks it up, and never
sent back unless it matched. Answers carry a content-security policy that lets nothing run, load or
connect but what this server sends.
"""

from __future__ import annotations

import argparse
import re
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import FileResponse, JSONResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from home_pipeline import rules
from home_pipeline.container import open_container
from home_pipeline.follower import Follower
from home_pipeline.page import answers
from home_pipeline.stage import when_input_ends
from home_pipeline.table import Table

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, MutableMapping

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

STATIC = Path(__file__).parent / "static"
HOST = "127.0.0.1"
# A name that a foreign DNS points at this address is refused.
NAMES = [HOST, "localhost"]
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}
_HOME = re.compile(rules.HOME)


class FixedHeaders:
    """Adds `HEADERS` to every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._headers = [(name.encode(), value.encode()) for name, value in HEADERS.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *self._headers]
            await send(message)

        await self._app(scope, receive, send_with_headers)


def make_page(table: Table, follower: Follower, late_s: float | None = None) -> Starlette:
    """Return the ASGI app; the follower starts and stops with it."""

    def shown(answer: dict[str, Any]) -> Response:
        is_late = answers.is_late(table, answer, late_s)
        return JSONResponse(answer | {"problem": follower.problem, "is_late": is_late})

    # Plain functions: starlette runs them on its own threads, so that a query delays no other request.
    def overview(_request: Request) -> Response:
        return shown(answers.overview(table, time.time()))

    def home(request: Request) -> Response:
        name = request.path_params["home"]
        if not _HOME.fullmatch(name):
            return JSONResponse({"error": "no such home"}, 404)
        return shown(answers.home(table, name, time.time()))

    def file(name: str, status: int = 200) -> Any:
        return lambda _request: FileResponse(STATIC / name, status)

    def home_page(request: Request) -> Response:
        known = _HOME.fullmatch(request.path_params["home"])
        return FileResponse(STATIC / "home.html", 200 if known else 404)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        follower.start()
        yield
        follower.stop()

    return Starlette(
        routes=[
            Route("/", file("overview.html")),
            Route("/home/{home}", home_page),
            Route("/favicon.ico", file("favicon.svg")),
            Route("/api/overview", overview),
            Route("/api/home/{home}", home),
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
        middleware=[Middleware(FixedHeaders), Middleware(TrustedHostMiddleware, allowed_hosts=NAMES)],
        lifespan=lifespan,
    )


def main() -> None:
    """Serve until a signal, or until standard input ends (`--while-stdin`)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--port", type=int, default=8350)
    parser.add_argument("--keep-s", type=int, default=1_200, help="how much of the past is shown")
    parser.add_argument("--late-s", type=float, help="when the page says that nothing is counted any more")
    parser.add_argument("--while-stdin", action="store_true", help="end when standard input ends")
    options = parser.parse_args()
    table = Table(keep_s=options.keep_s)
    with open_container() as container:
        page = make_page(table, Follower(container, table), options.late_s)
        config = uvicorn.Config(page, host=HOST, port=options.port, log_level="warning", server_header=False)
        server = uvicorn.Server(config)
        if options.while_stdin:
            when_input_ends(lambda: setattr(server, "should_exit", True))
        server.run()
    table.close()


if __name__ == "__main__":
    main()
