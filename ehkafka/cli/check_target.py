"""What `check` and `tail` look at: an app's endpoint, an address, or what environment and file say.

Called once, on the main thread. A connection string is never an option: the command line is not a place for a
key, and the endpoint's own parser refuses it there without repeating it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ehkafka import Endpoint
from ehkafka.checks import Target
from ehkafka.cli.app_path import load_app
from ehkafka.cli.settings.given import Given
from ehkafka.errors import ConfigurationError
from ehkafka.offsets.source import mirror_of_environment, named_mirror

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def chosen_target(
    app: str | None,
    endpoint: str | None,
    *,
    group: str | None = None,
    topics: Sequence[str] = (),
    config: Path | None = None,
) -> Target:
    """Return the target that the options name, else what `run` would use. Raises `ConfigurationError`."""
    named = tuple(dict.fromkeys(topics))
    if not all(named):
        raise ConfigurationError("A topic was given as an empty text: give its name.")
    given = Given.read(config)
    if app is not None:
        if endpoint is not None:
            raise ConfigurationError(
                f"The endpoint is given twice, by {app!r} and by --endpoint: leave one out."
            )
        found = load_app(app)
        given.apply(found)
        return Target.of_app(found, group=group, topics=named)
    there = given.endpoint() if endpoint is None else Endpoint.kafka(endpoint)
    own = (there.default_topic,) if there.default_topic else ()
    return Target(
        endpoint=there,
        group=group or given.layer.settings.get("group"),
        topics=named or own,
        consumer=given.layer.consumer,
    )


def with_mirror(
    target: Target, place: str | None, *, credential: str | None, client_id: str | None
) -> Target:
    """Return the target with the mirror at that place, else with the environment's, if it names one.

    Raises `ConfigurationError`.
    """
    if place is None:
        return replace(target, mirror=mirror_of_environment())
    return replace(target, mirror=named_mirror(place, credential=credential, client_id=client_id))
