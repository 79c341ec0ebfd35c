"""The server of an app over canned states: its routes and its access are the real ones, its app is made up.

Made by a test on its thread, which also changes what it answers; its server reads that on threads of its own.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from unittest import mock

import ehkafka
from ehkafka.http import application, stream
from ehkafka.http.journal import Journal
from ehkafka.http.measures import Rates
from ehkafka.http.options import Http
from ehkafka.http.panels import panels, tiles
from ehkafka.http.server import HttpServer
from ehkafka.run.steer.action import ActionResult
from ehkafka.settings.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from starlette.types import Receive, Scope, Send

PAGE: Final = Path(ehkafka.__file__).parent / "http" / "page"
TOKEN: Final = "a-token-of-tests"
RECORDS_PER_S: Final = 220
# Its access: this machine may read without a token; or, as on an address that others reach, it may not.
LOOPBACK, OUTSIDE = Http(address="127.0.0.1:0"), Http(address="0.0.0.0:0")


class HttpDouble:
    """What is served, its state, its keys and its letters; and what it was asked."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.state = state
        self.journal = Journal()
        self.keys = self
        self._began_s = time.time()
        self._rates = Rates()
        # Reading needs the token.
        self.is_closed = False
        # How many streams there may be, and the seconds between two states of one.
        self.streams_max = stream.STREAMS_MAX
        self.every_s = 0.1
        # The next actions are refused with this.
        self.refusal: ehkafka.errors.ActionRefusedError | None = None
        # Said in previews and results, by action.
        self.sentences: dict[str, str] = {}
        self.letters: list[dict[str, Any]] = []
        # What was asked for by path, in order; and the headers that carried a token.
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.authorizations: list[str | None] = []
        self._server: HttpServer | None = None
        self._application: Any = None

    def actions(self, *, preview: bool) -> list[dict[str, Any]]:
        """Return the actions that were asked for, without or with a preview."""
        return [body for path, body in self.asked if path == "/actions" and body["preview"] is preview]

    def get(self) -> dict[str, Any]:
        """Return the state as of now: each partition handles and receives so many records a second."""
        snapshot: dict[str, Any] = self.state["snapshot"]
        more = int(RECORDS_PER_S * (time.time() - self._began_s))
        partitions = [
            one | {"finished_records": one["finished_records"] + more} for one in snapshot["partitions"]
        ]
        sums = {
            name: snapshot[name] + more * len(partitions) for name in ("finished_records", "received_records")
        }
        state = self.state | {
            "snapshot": snapshot | sums | {"partitions": partitions, "taken_at_s": time.time()}
        }
        self._rates.note(state["snapshot"])
        return state | {"tiles": tiles(state, self._rates), "panels": panels(state, self._rates)}

    def forget(self) -> None:
        """Each state is new."""

    def act(self, asked: Mapping[str, Any]) -> ActionResult:
        """Note an action, and do it or refuse it."""
        self.asked.append(("/actions", {name: value for name, value in asked.items() if name != "by"}))
        if self.refusal is not None:
            raise self.refusal
        text = self.sentences.get(asked["do"], f"{asked['target']} {asked['name']}: {asked['do']}.")
        return ActionResult(text, changed=True, name=asked["name"], records=1, is_preview=asked["preview"])

    def newest(self, _topic: str, _limit: int) -> dict[str, Any]:
        """Return its letters."""
        return {"letters": self.letters, "more": False}

    def redrive(self, topic: str, *, preview: bool) -> dict[str, Any]:
        """Note a redrive."""
        self.asked.append(("/letters/redrive", {"topic": topic, "preview": preview}))
        records = len(self.letters)
        return {"text": f"{records} letters of {topic} go home.", "records": records}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as the real application does."""
        if scope["path"] == "/state":
            given = dict(scope["headers"]).get(b"authorization")
            self.authorizations.append(given and given.decode())
        await self._application(scope, receive, send)

    def start(self, port: int = 0) -> str:
        """Serve at this machine's address alone; return the URL."""
        me = cast("Any", self)
        options = OUTSIDE if self.is_closed else LOOPBACK
        self._application = application.application(
            options, Secret(TOKEN), me, me, self.journal, lambda _accept: (b"", "text/plain")
        )
        self._server = HttpServer(Http(address=f"127.0.0.1:{port}"))
        self._server.start(self)
        return self._server.url

    def stop(self) -> int:
        """End the server; return its port, at which it may start again."""
        assert self._server is not None
        self._server.stop()
        return self._server.port


@contextmanager
def served(double: HttpDouble) -> Iterator[str]:
    """Serve it while the block runs; yield the URL."""
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(stream, "EVERY_S", double.every_s))
        stack.enter_context(mock.patch.object(stream, "STREAMS_MAX", double.streams_max))
        stack.enter_context(mock.patch.object(application, "LettersPage", lambda served: served))
        yield double.start()
        double.stop()
