"""Changing a handler's number of workers while the app runs. Called by `Runtime`, on the caller's thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.errors import ConfigurationError
from ehkafka.workers.protocol import Resizable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ehkafka.intake.route import Route


def named_route(routes: Sequence[Route], handler: str, asked: str) -> Route:
    """Return the one route whose handler has that name. Raises `ConfigurationError`, which says who asked."""
    found = [route for route in routes if route.handler == handler]
    if len(found) == 1:
        return found[0]
    known = ", ".join(repr(route.handler) for route in routes)
    if found:
        raise ConfigurationError(
            f"{asked}: {len(found)} handlers are named {handler!r}; rename the function of one of them."
        )
    raise ConfigurationError(f"{asked}: there is no handler {handler!r}; this app has {known}.")


def resize(route: Route, workers: int) -> int:
    """Give a handler so many workers; return how many it had.

    Raises `ConfigurationError`, or what the set-up of a new worker raises: then all is as before.
    """
    pool = route.workers
    if not isinstance(pool, Resizable):
        raise ConfigurationError(
            f"resize({route.handler!r}): the workers of this handler cannot change in number while it runs; "
            "set workers= where it is registered, and restart."
        )
    if type(workers) is not int or not 1 <= workers <= pool.size_max:
        raise ConfigurationError(
            f"resize({route.handler!r}, workers={workers!r}): give a number from 1 to {pool.size_max}."
        )
    before = pool.size
    pool.resize(workers)
    return before
