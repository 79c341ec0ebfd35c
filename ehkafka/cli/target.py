"""What a command looks at: an app's broker and group, an address, or what environment and file say.

Called once, on the main thread. A connection string is never an option: the command line is not a place for a
key, and the endpoint's own parser refuses it there without repeating it.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ehkafka import Endpoint
from ehkafka.checks.target import Target
from ehkafka.checks.topic_reader import LastRecords
from ehkafka.cli.app_path import load_app
from ehkafka.cli.settings.given import Given
from ehkafka.cli.settings.text import start_position
from ehkafka.errors import ConfigurationError
from ehkafka.offsets import GroupOffsets
from ehkafka.offsets.cluster import Cluster
from ehkafka.offsets.source import mirror_of_environment, named_mirror

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from ehkafka.cli.options import OfEndpoint, OfGroup, OfMirror
    from ehkafka.positions.start import FixedStart

FORMS = (
    "earliest, latest, an offset such as 1200, -10 for the last 10 of each partition, -10m or '10 minutes"
    " ago' (s, m, h, d), or a moment such as 2026-01-31T12:00:00Z"
)
_LAST = re.compile(r"-(?P<count>\d{1,9})", re.ASCII)
_OF_PARTITION = re.compile(r"(?P<partition>\d{1,9})=(?P<place>.+)", re.ASCII)


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
        raise ConfigurationError("The name of a topic is empty: give the name.")
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
        group=group or given.layer.values("app").get("group"),
        topics=named or own,
        consumer=given.layer.values("consumer"),
    )


def with_mirror(target: Target, of: OfMirror) -> Target:
    """Return the target with the mirror that the options name, else with the environment's, if it names one.

    Raises `ConfigurationError`.
    """
    if of.mirror is None:
        return replace(target, mirror=mirror_of_environment())
    return replace(target, mirror=named_mirror(of.mirror, credential=of.credential, client_id=of.client_id))


def target_of(topic: str, of: OfEndpoint) -> Target:
    """Return the broker that the options of a command on a topic mean. Raises `ConfigurationError`."""
    return chosen_target(of.app, of.endpoint, topics=[topic], config=of.config)


def cluster_of(topic: str | None, of: OfEndpoint) -> Cluster:
    """Return the broker that the options mean, for one topic or all. Raises `ConfigurationError`."""
    target = chosen_target(of.app, of.endpoint, config=of.config)
    return Cluster(replace(target, topics=(topic,) if topic else ()), timeout_s=of.timeout_s)


def group_offsets(topic: str, of: OfGroup) -> GroupOffsets:
    """Return the group on the topic that the options mean. Raises `ConfigurationError`."""
    target = chosen_target(of.app, of.endpoint, group=of.group, topics=[topic], config=of.config)
    return GroupOffsets(target, topic, timeout_s=of.timeout_s)


def parse_from(text: str, *, option: str = "--from") -> FixedStart | LastRecords:
    """Return the place to begin. Raises `ConfigurationError`."""
    if found := _LAST.fullmatch(text):
        return LastRecords(int(found["count"]))
    with suppress(ValueError):
        moment = datetime.fromisoformat(text) if "-" in text[1:] else None
        # A moment that is typed without a zone is one of this machine's clock.
        if moment is not None and moment.tzinfo is None:
            return moment.astimezone()
    try:
        place: FixedStart = start_position(text)
        if isinstance(place, timedelta):
            _ = datetime.now(UTC) - place  # further back than there are dates?
    except (ValueError, OverflowError):
        raise ConfigurationError(f"{option} {text!r} is not a position in a log: give {FORMS}.") from None
    return place


def parse_places(
    texts: Sequence[str], only: Collection[int], *, option: str
) -> dict[int | None, FixedStart | LastRecords]:
    """Return places by partition; None means all that are not named. Raises `ConfigurationError`."""
    places: dict[int | None, FixedStart | LastRecords] = {}
    for given in texts:
        named = _OF_PARTITION.fullmatch(given)
        partition = int(named["partition"]) if named else None
        if partition in places:
            raise ConfigurationError(
                f"{option} is given twice for {'all' if partition is None else partition}: leave one out."
            )
        if only and partition is not None and partition not in only:
            raise ConfigurationError(
                f"{option} names partition {partition}, which is not among --partition: leave one of the "
                "two out."
            )
        places[partition] = parse_from(named["place"] if named else given, option=option)
    return places
