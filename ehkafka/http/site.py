"""One app's HTTP side, put together: what it remembers, its application, and the server where it has one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.events import HttpServing
from ehkafka.http.application import application
from ehkafka.http.journal import Journal
from ehkafka.http.options import Http
from ehkafka.http.server import HttpServer
from ehkafka.http.state import State
from ehkafka.settings.secret import Secret

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from ehkafka.http.answers import States
    from ehkafka.http.served import Served


class Site:
    """Made once for an app; its server is made for each run."""

    def __init__(
        self,
        options: Http | None,
        served: Served,
        *,
        version: str,
        metrics: Callable[[str], tuple[bytes, str]],
        of_members: Callable[..., Sequence[States]] = lambda **_values: (),
    ) -> None:
        """Raises `ConfigurationError` for a token that cannot be read. `options`: None: it is not bound."""
        self._options = options = options or Http(address="0.0.0.0:0")
        token = options.read_token()
        # A hook of the app's.
        self.journal = Journal()
        self._state = state = State(
            served,
            self.journal,
            version=version,
            shows_values=options.shows_values,
            of_members=of_members,
        )
        self.application: object = application(
            options, None if token is None else Secret(token), served, state, self.journal, metrics
        )
        self._server: HttpServer | None = None

    def bind(self) -> HttpServing | None:
        """Take the address; return its event, None if it is taken already. Raises `ConfigurationError`."""
        if self._server is not None:
            return None
        self._server = HttpServer(self._options)
        return HttpServing(self._server.url, is_loopback=self._options.is_loopback)

    def start(self) -> None:
        """Serve."""
        assert self._server is not None
        self._server.start(self.application, self._state.sample)

    def stop(self) -> None:
        """Serve no more, and let go of the address."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is the server's."""
        server = self._server
        return server is not None and server.owns(thread)
