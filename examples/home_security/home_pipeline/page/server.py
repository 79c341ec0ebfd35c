"""The page's server: on 127.0.0.1, nothing from elsewhere. `python -m home_pipeline.page.server`.

What comes in an address is hostile: a home's name is matched whole before anything looks it up, and never
sent back unless it matched. Answers carry a content-security policy that lets nothing run, load or
connect but what this server sends.

Reading is free to all on this machine. What changes something (`POST`) needs the token of
HOME_SECURITY_TOKEN, which no other page knows, and must come from a page of this server, as JSON, and short.
"""

from __future__ import annotations

import argparse
import hmac
import json
import os
import re
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import FileResponse, JSONResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from home_pipeline import rules
from home_pipeline.container import open_container
from home_pipeline.follower import Follower
from home_pipeline.page import answers
from home_pipeline.page.pipeline import DONE, Pipeline, RefusedError
from home_pipeline.stage import TOKEN, when_input_ends
from home_pipeline.table import SILENT_S, Table

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.middleware.base import RequestResponseEndpoint
    from starlette.requests import Request
    from starlette.responses import Response

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
BODY_BYTES_MAX = 4_096
QUERY_CHARACTERS_MAX = 64
HOURS_MAX = 24.0
_HOME = re.compile(rules.HOME)


async def fixed_headers(request: Request, answer_to: RequestResponseEndpoint) -> Response:
    """Add `HEADERS` to every answer."""
    answer = await answer_to(request)
    answer.headers.update(HEADERS)
    return answer


class Page:
    """What is asked of this server, one method each; all but the last two on starlette's own threads."""

    def __init__(
        self, table: Table, follower: Follower, pipeline: Pipeline, token: str, late_s: float | None = None
    ) -> None:
        self._table = table
        self._follower = follower
        self._pipeline = pipeline
        self._token = token
        self._late_s = late_s

    def overview(self, request: Request) -> Response:
        """Answer for all homes."""
        answer = answers.overview(self._table, self._head(), _hours(request))
        return JSONResponse(answer | {"pipeline": self._pipeline.answer()})

    def home(self, request: Request) -> Response:
        """Answer for one home."""
        name = request.path_params["home"]
        if not _HOME.fullmatch(name):
            raise HTTPException(404, "no such home")
        return JSONResponse(answers.home(self._table, self._head(), name, _hours(request)))

    def alarms(self, request: Request) -> Response:
        """Answer which alarms there are: of a home, of a kind, open ones."""
        asked = request.query_params
        found = answers.alarms(
            self._table,
            home=_checked("home", asked.get("home", ""), f"({rules.HOME})?") or None,
            kind=_checked("kind", asked.get("kind", ""), f"({rules.KIND})?") or None,
            is_open=_checked("state", asked.get("state", "all"), "open|all") == "open",
            limit=int(_checked("limit", asked.get("limit", "50"), "[0-9]{1,3}")),
        )
        return JSONResponse(self._head() | found)

    def find(self, request: Request) -> Response:
        """Answer which homes a search means."""
        query = request.query_params.get("q", "")[:QUERY_CHARACTERS_MAX]
        return JSONResponse(self._head() | answers.find(self._table, query))

    async def acknowledge(self, request: Request) -> Response:
        """Acknowledge a home's alarms of a kind."""
        asked = await self._asked(request)
        home = _checked("home", asked.get("home"), rules.HOME)
        kind = _checked("kind", asked.get("kind"), rules.KIND)
        up_to_s = asked.get("up_to_s")
        if isinstance(up_to_s, bool) or not isinstance(up_to_s, int | float):
            raise HTTPException(400, "up_to_s is not a number.")
        if not 0 <= up_to_s < rules.LATEST_MS / 1000:
            raise HTTPException(400, "up_to_s must be a time in seconds since 1970.")
        up_to_us, now_s = round(up_to_s * 1e6), time.time()
        return JSONResponse(
            await run_in_threadpool(answers.acknowledge, self._table, home, kind, up_to_us, now_s)
        )

    async def act(self, request: Request) -> Response:
        """Ask the demo for something."""
        await self._asked(request)
        what = request.path_params["what"]
        if what not in DONE:
            raise HTTPException(404, "There is no such action.")
        try:
            words = await run_in_threadpool(self._pipeline.wish, what)
        except RefusedError as refused:
            raise HTTPException(409, str(refused)) from None
        return JSONResponse({"words": words})

    def _head(self) -> dict[str, Any]:
        return answers.head(self._table, time.time(), self._late_s) | {"problem": self._follower.problem}

    async def _asked(self, request: Request) -> dict[str, Any]:
        """Return what a request that changes something asks for, once it may. Raises `HTTPException`."""
        given = request.headers.get("authorization", "").encode("latin-1")
        if not self._token or not hmac.compare_digest(given, f"Bearer {self._token}".encode()):
            raise HTTPException(401, "Open the address with the token that the console printed.")
        if request.headers.get("origin") != f"http://{request.headers['host']}":
            raise HTTPException(403, "This may only be asked by a page of this server.")
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise HTTPException(400, "The body must be JSON.")
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > BODY_BYTES_MAX:
                raise HTTPException(400, f"The body is longer than {BODY_BYTES_MAX} bytes.")
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise HTTPException(400, "The body must be an object of JSON.")
        return found


def make_page(page: Page, follower: Follower, pipeline: Pipeline) -> Starlette:
    """Return the ASGI app; the follower and what asks the broker start and stop with it."""

    def file(name: str, status: int = 200) -> Any:
        return lambda _request: FileResponse(STATIC / name, status)

    def home_page(request: Request) -> Response:
        known = _HOME.fullmatch(request.path_params["home"])
        return FileResponse(STATIC / "home.html", 200 if known else 404)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        follower.start()
        pipeline.start()
        yield
        pipeline.stop()
        follower.stop()

    return Starlette(
        routes=[
            Route("/", file("overview.html")),
            Route("/home/{home}", home_page),
            Route("/favicon.ico", file("favicon.svg")),
            Route("/api/overview", page.overview),
            Route("/api/alarms", page.alarms),
            Route("/api/home/{home}", page.home),
            Route("/api/find", page.find),
            Route("/api/acknowledge", page.acknowledge, methods=["POST"]),
            Route("/api/actions/{what}", page.act, methods=["POST"]),
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
        middleware=[
            Middleware(BaseHTTPMiddleware, dispatch=fixed_headers),
            Middleware(TrustedHostMiddleware, allowed_hosts=NAMES),
        ],
        exception_handlers={HTTPException: _refused},
        lifespan=lifespan,
    )


def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


def _hours(request: Request) -> float:
    hours = request.query_params.get("hours", str(HOURS_MAX))
    return float(_checked("hours", hours, r"[0-9]{1,2}(\.[0-9]{1,3})?"))


def _checked(name: str, given: object, pattern: str) -> str:
    """Return what was given, if it can be. Raises `HTTPException`, which does not repeat it."""
    if isinstance(given, str) and re.fullmatch(pattern, given):
        return given
    raise HTTPException(400, f"{name} has a value that is not allowed.")


def main() -> None:
    """Serve until a signal, or until standard input ends (`--while-stdin`)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--port", type=int, default=8350)
    parser.add_argument("--keep-s", type=int, default=86_400, help="how much of the past is shown")
    parser.add_argument("--silent-s", type=float, default=SILENT_S, help="when a sensor is called silent")
    parser.add_argument("--folder", type=Path, help="where acknowledgements, status and wishes are")
    parser.add_argument("--late-s", type=float, help="when the page says that nothing is counted any more")
    parser.add_argument("--while-stdin", action="store_true", help="end when standard input ends")
    options = parser.parse_args()
    table = Table(keep_s=options.keep_s, silent_s=options.silent_s, folder=options.folder)
    pipeline = Pipeline(options.folder, os.environ.get("HOME_SECURITY_BOOTSTRAP"))
    with open_container() as container:
        follower = Follower(container, table)
        page = make_page(
            Page(table, follower, pipeline, os.environ.get(TOKEN, ""), options.late_s), follower, pipeline
        )
        config = uvicorn.Config(page, host=HOST, port=options.port, log_level="warning", server_header=False)
        server = uvicorn.Server(config)
        if options.while_stdin:
            when_input_ends(lambda: setattr(server, "should_exit", True))
        server.run()
    table.close()


if __name__ == "__main__":
    main()
