"""What is inside of an app of this process: the one place by which tests look at its parts, or judge it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ehkafka import App
    from ehkafka.events.history import History


class Inside(NamedTuple):
    """Parts of a run, as long as it is the app's."""

    ledger: Any
    context: Any
    loop: Any
    routes: Sequence[Any]

    @property
    def hub(self) -> Any:
        """The hub of the only handler."""
        (route,) = self.routes
        return route.hub

    @property
    def inboxes(self) -> Any:
        """The inboxes of the only handler."""
        return self.hub.inboxes


def inside(app: Any) -> Inside:
    """Return the parts of an app's run, which has begun."""
    run = app.current_run
    return Inside(run.context.ledger, run.context, run.loop, run.routes.all)


def with_history(app: App, history: History | None) -> App:
    """Return an app whose runs report to a history, for a checker to judge."""
    app._history = history
    return app


def port_of(app: Any) -> int:
    """Return the port on which an app's own server listens."""
    server = app._life.web.site._server
    assert server is not None, "it does not listen"
    return int(server.port)
