from __future__ import annotations

import http.client
import json
import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from ehkafka.http.options import Http
from ehkafka.http.site import Site
from ehkafka.run.steer.action import ActionResult
from ehkafka.telemetry.snapshot import Health, Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ehkafka.errors import ActionRefusedError
    from ehkafka.run.steer.keys import KeyState

TOKEN = "a-token-of-24-characters"


class Double:
    """Stands for an app: says what a test has it say, and remembers what it was asked."""

    def __init__(self) -> None:
        self.state = "running"
        self.letter_topics: tuple[str, ...] = ()
        self.mirror: Any = None
        self.live: tuple[str, ...] = ()
        self.started: tuple[str, ...] = ()
        self.ready: tuple[str, ...] = ()
        self.reasons: tuple[str, ...] = ()
        self.asked: list[Mapping[str, Any]] = []
        self.refusal: ActionRefusedError | None = None

    @property
    def keys(self) -> Double:
        """Its own keys."""
        return self

    @property
    def current_run(self) -> Double:
        """Its own run."""
        return self

    def waiting(self, *, values: bool = False) -> list[KeyState]:
        """Have none."""
        return []

    def act(self, asked: Mapping[str, Any]) -> ActionResult:
        """Remember it."""
        self.asked.append(asked)
        if self.refusal is not None:
            raise self.refusal
        return ActionResult("done.", changed=True, name=str(asked["name"]))

    def snapshot(self) -> Snapshot:
        """Return an empty one."""
        return Snapshot.empty("group", "broker", self.state, 1.0)

    def health(self) -> Health:
        """Be well, or as the test says."""
        return Health(self.reasons)

    def metrics(self, _accept: str) -> tuple[bytes, str]:
        """Return one."""
        return b"up 1\n", "text/plain"

    def not_live(self) -> tuple[str, ...]:
        """As the test says."""
        return self.live

    def not_started(self) -> tuple[str, ...]:
        """As the test says."""
        return self.started

    def not_ready(self) -> tuple[str, ...]:
        """As the test says."""
        return self.ready


class Answered(NamedTuple):
    """One answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, read."""
        return json.loads(self.body)


class Client:
    """Asks one server; each time on a connection of its own."""

    def __init__(self, port: int, served: Double, site: Site) -> None:
        self.port = port
        self.served = served
        self.site = site

    def ask(self, path: str, method: str = "GET", body: Any = None, **headers: str) -> Answered:
        """Ask for a path."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10.0)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            named.setdefault("content-type", "application/json")
        payload = body if isinstance(body, bytes | None) else json.dumps(body)
        try:
            connection.request(method, path, payload, named)
            answer = connection.getresponse()
            return Answered(answer.status, {n.lower(): v for n, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def post(self, path: str, body: Any, **headers: str) -> Answered:
        """Send a JSON body."""
        return self.ask(path, "POST", body, **headers)


def connected(client: Client, stack: ExitStack, first: bytes = b"", receive_bytes: int = 0) -> socket.socket:
    """Open a connection, and send something."""
    one = stack.enter_context(socket.socket())
    if receive_bytes:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    one.settimeout(10.0)
    one.connect(("127.0.0.1", client.port))
    one.sendall(first)
    return one


def ask_for(path: str) -> bytes:
    """Return a request."""
    return f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()


@pytest.fixture
def token() -> str:
    """The token that the servers have."""
    return TOKEN


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Client]]:
    """Start a server of a double; `token=None` for none."""
    with ExitStack() as running:

        def start(token: str | None = TOKEN, served: Double | None = None, **options: Any) -> Client:
            monkeypatch.delenv("EHKAFKA_HTTP_TOKEN", raising=False)
            if token is not None:
                monkeypatch.setenv("EHKAFKA_HTTP_TOKEN", token)
            served = served or Double()
            given = Http(**{"address": "127.0.0.1:0", **options})
            measured = lambda accept: served.metrics(accept)  # noqa: E731, PLW0108 - a test may replace it
            site = Site(given, served, version="1", metrics=measured)
            site.bind()
            running.callback(site.stop)
            site.start()
            assert site._server is not None
            return Client(site._server.port, served, site)

        yield start


@pytest.fixture
def client(serve: Callable[..., Client]) -> Client:
    """Ask a server on loopback, with a token."""
    return serve()
