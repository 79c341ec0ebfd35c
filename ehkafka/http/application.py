"""The ASGI application: all routes of one app, behind `access`."""

from __future__ import annotations

import asyncio
import functools
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from ehkafka.checks.target import Target
from ehkafka.errors import ActionRefusedError
from ehkafka.http.access import SESSION_S, TOO_MANY, AccessRules, Guarded, address_of
from ehkafka.http.answers import answered
from ehkafka.http.letters import LettersPage
from ehkafka.http.plain import dumped
from ehkafka.http.probes import Probes
from ehkafka.http.stream import Loops, TooManyStreamsError
from ehkafka.offsets.members import members_of
from ehkafka.run.steer.names import parse_head, parse_partition

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from ehkafka.http.journal import Journal
    from ehkafka.http.options import Http
    from ehkafka.http.served import Served
    from ehkafka.http.state import State
    from ehkafka.settings.secret import Secret

PAGE: Final = Path(__file__).parent / "page"
BODY_BYTES_MAX: Final = 16_384
BODY_S: Final = 10.0
# How long the broker may take to say who has a partition.
ANSWER_S: Final = 3.0
CLIENT_CHARACTERS_MAX: Final = 60
WITHOUT_REASONS: Final = "Send the token, `Authorization: Bearer …`, for the problems themselves."


class Json(Response):
    """JSON."""

    media_type = "application/json"

    def render(self, content: object) -> bytes:
        """Return the body."""
        return dumped(content)


class Pages:
    """The answers. Each look at the app is made on one of starlette's threads, never on the loop."""

    def __init__(
        self,
        served: Served,
        state: State,
        journal: Journal,
        access: AccessRules,
        metrics: Callable[[str], tuple[bytes, str]],
    ) -> None:
        self._served = served
        self._state = state
        self._access = access
        self._probes = Probes(served)
        self._letters = LettersPage(served)
        self._metrics = metrics
        self._loops = Loops(state, journal)

    def routes(self) -> list[Route | Mount]:
        """Return them all."""
        probes = {"live": self._probes.live, "ready": self._probes.ready}
        probes |= {"startup": self._probes.startup}
        return [
            *(Route(f"/{name}", functools.partial(_probe, answer)) for name, answer in probes.items()),
            Route("/health", self.health),
            Route("/metrics", self.metrics),
            Route("/snapshot", self.snapshot),
            Route("/state", self.state),
            Route("/events", self.events),
            Route("/actions", self.actions, methods=["POST"]),
            Route("/letters", self.letters),
            Route("/letters/redrive", self.redrive, methods=["POST"]),
            Route("/login", self.login, methods=["POST"]),
            Route("/logout", self.logout, methods=["POST"]),
            Route("/", self.page),
            Route("/favicon.ico", self.no_icon),
            Mount("/page", StaticFiles(directory=PAGE, check_dir=False)),
        ]

    async def health(self, request: Request) -> Response:
        """All that is wrong, or how much that is: reasons name keys and repeat errors."""
        status, body = await run_in_threadpool(self._probes.health)
        if not self._access.may_read(request):
            body = {"ok": body["ok"], "problems": body["problems"], "text": WITHOUT_REASONS}
        return Json(body, status)

    async def metrics(self, request: Request) -> Response:
        """Prometheus's text, or OpenMetrics where the request asks for that."""
        here = self._loops.current()
        async with here.measuring:
            body, kind = await here.call(self._metrics, request.headers.get("accept", ""))
        return Response(body, headers={"content-type": kind})

    async def snapshot(self, _request: Request) -> Response:
        """`App.snapshot()`."""
        return Json((await self._loops.current().call(self._served.snapshot)).as_dict())

    async def state(self, request: Request) -> Response:
        """What the page shows."""
        state = await self._loops.current().call(self._state.get)
        return Json(state | {"access": self._access.described(request)})

    async def events(self, request: Request) -> Response:
        """The same as it changes."""
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        streams = self._loops.current().streams
        try:
            queue = streams.open()
        except TooManyStreamsError:
            text = "As many listen as may; close another page first."
            return Json({"reason": "streams", "text": text}, HTTPStatus.SERVICE_UNAVAILABLE)
        lines = streams.read(queue, self._access.described(request))
        return StreamingResponse(lines, media_type="text/event-stream")

    async def actions(self, request: Request) -> Response:
        """Carry one out."""
        asked = await _json(request)
        client = "an unknown address" if request.client is None else request.client.host
        # A proxy says which address it is, or a client that claims to be one.
        asked["by"] = f"the token, from {client[:CLIENT_CHARACTERS_MAX]}"
        answer = await self._answered(functools.partial(self._act, asked))
        self._state.forget()
        return answer

    def _act(self, asked: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._served.keys.act(asked).as_dict()
        except ActionRefusedError as error:
            if error.reason == "elsewhere" and (where := who_has(self._served, str(asked["name"]))):
                raise ActionRefusedError("elsewhere", f"Not here. {where}") from None
            raise

    async def letters(self, request: Request) -> Response:
        """The newest dead letters of a topic."""
        given = request.query_params
        limit = given.get("limit", "50")
        if not limit.isascii() or not limit.isdigit() or len(limit) > 6:
            raise HTTPException(HTTPStatus.BAD_REQUEST, "limit is a number.")
        return await self._answered(
            functools.partial(self._letters.newest, given.get("topic", ""), int(limit))
        )

    async def redrive(self, request: Request) -> Response:
        """Bring dead letters back to where they came from."""
        asked = await _json(request)
        topic, preview = asked.get("topic"), asked.get("preview", True)
        if not isinstance(topic, str) or not isinstance(preview, bool):
            raise HTTPException(HTTPStatus.BAD_REQUEST, "Give the topic, and true or false for preview.")
        return await self._answered(functools.partial(self._letters.redrive, topic, preview=preview))

    async def _answered(self, function: Callable[[], dict[str, Any]]) -> Response:
        """Return what a function does on a thread, or why it does not."""
        status, body = await self._loops.current().call(answered, function)
        return Json(body, status)

    async def login(self, request: Request) -> Response:
        """Trade the token for a cookie."""
        given = (await _json(request)).get("token")
        is_token = isinstance(given, str) and self._access.is_token(given, address_of(request.scope))
        if is_token is None:
            status, reason, text = TOO_MANY
            return Json({"reason": reason, "text": text}, status)
        if not is_token:
            return Json({"reason": "token", "text": "The token is wrong."}, HTTPStatus.FORBIDDEN)
        answer = Response(status_code=HTTPStatus.NO_CONTENT)
        answer.set_cookie(
            self._access.cookie,
            self._access.sessions.open(),
            max_age=int(SESSION_S),
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return answer

    async def logout(self, request: Request) -> Response:
        """End the cookie."""
        self._access.sessions.close(self._access.session_of(request))
        answer = Response(status_code=HTTPStatus.NO_CONTENT)
        answer.delete_cookie(self._access.cookie)
        return answer

    async def page(self, _request: Request) -> Response:
        """The page, which has nothing of the app in itself."""
        return FileResponse(PAGE / "index.html")

    async def no_icon(self, _request: Request) -> Response:
        """The page names its icon itself."""
        return Response(status_code=HTTPStatus.NOT_FOUND)


async def _probe(answer: Callable[[], tuple[int, dict[str, Any]]], _request: Request) -> Response:
    status, body = await run_in_threadpool(answer)
    return Json(body, status)


async def _json(request: Request) -> dict[str, Any]:
    """Return a small JSON object. Raises `HTTPException` for anything else."""
    body = b""
    try:
        async with asyncio.timeout(BODY_S):
            async for part in request.stream():
                body += part
                if len(body) > BODY_BYTES_MAX:
                    raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "Too long.")
    except TimeoutError:
        raise HTTPException(HTTPStatus.REQUEST_TIMEOUT, "Too slow.") from None
    except ClientDisconnect:  # no client hears the answer, and the log does not need the stack
        raise HTTPException(HTTPStatus.BAD_REQUEST, "Cut short.") from None
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise HTTPException(HTTPStatus.BAD_REQUEST, "Send a JSON object.") from None
    if not isinstance(found, dict):
        raise HTTPException(HTTPStatus.BAD_REQUEST, "Send a JSON object.")
    return found


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return Json({"reason": "invalid", "text": error.detail}, error.status_code)


def application(
    options: Http,
    token: Secret | None,
    served: Served,
    state: State,
    journal: Journal,
    metrics: Callable[[str], tuple[bytes, str]],
) -> Any:
    """Return the ASGI application of one app."""
    access = AccessRules(options, token)
    pages = Pages(served, state, journal, access, metrics)
    return Starlette(
        routes=pages.routes(),
        middleware=[Middleware(Guarded, access=access, page=PAGE / "index.html")],
        exception_handlers={HTTPException: _refused},
    )


def who_has(served: Served, name: str) -> str:
    """Return a sentence for the partition of a key's or partition's name; empty where it is unknown.

    Not from an event loop: it asks the broker.
    """
    head = parse_head(name)
    partition = parse_partition(name) if head is None else head[0]
    if partition is None:
        return ""
    target = Target.of_app(served)
    members = members_of(target, target.group or "", partition.topic, ANSWER_S) or []
    for member in members:
        if partition.partition in member.partitions:
            owner = f"{member.host} ({member.client})"
            return f"Partition {partition.partition} of {partition.topic} is assigned to {owner}."
    return ""
