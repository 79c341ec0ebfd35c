"""What `check` and `tail` look at: an app's endpoint, an address, or what the environment says.

Called once, on the main thread. A connection string is never an option: the command line is no place for a
key, and the endpoint's own parser refuses it there without repeating it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka import ConfigurationError, Endpoint
from ehkafka.checks import Target
from ehkafka.cli.app_path import load_app

if TYPE_CHECKING:
    from collections.abc import Sequence


def chosen_target(
    app: str | None, endpoint: str | None, *, group: str | None = None, topics: Sequence[str] = ()
) -> Target:
    """Return the target that the options name. Raises `ConfigurationError`."""
    named = tuple(dict.fromkeys(topics))
    if app is not None:
        if endpoint is not None:
            raise ConfigurationError(
                f"The endpoint is given twice, by {app} and by --endpoint: leave one out."
            )
        return Target.of_app(load_app(app), group=group, topics=named)
    there = Endpoint.from_env() if endpoint is None else Endpoint.kafka(endpoint)
    own = (there.default_topic,) if there.default_topic else ()
    return Target(endpoint=there, group=group, topics=named or own)
