"""What metrics are read from: an app's snapshot, taken apart into the parts that metrics are of. Pure.

Prometheus and OpenTelemetry share this and the `catalogue`, so that both show the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ehkafka.errors import ConfigurationError
from ehkafka.telemetry.catalogue import APP, HANDLER, MEMBER, PARTITION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ehkafka.telemetry.catalogue import Metric
    from ehkafka.telemetry.snapshot import Snapshot

    Labels = dict[str, str]
    # Each part with its labels; parts may share them, so they are never changed.
    Parts = list[tuple[Labels, Any]]


class Measured(Protocol):
    """What shows metrics: an app, which may be the supervisor of several processes."""

    def snapshot(self) -> Snapshot:
        """Return its picture of this moment."""

    def measure(self) -> None:
        """Have it counted from now on how long calls take."""


def begin_measuring(name: str, apps: Sequence[Measured]) -> None:
    """Have apps measured; `name` is who asks. Raises `ConfigurationError` for two apps of one group."""
    groups = [one.snapshot().group for one in apps] if len(apps) > 1 else []
    if len(set(groups)) < len(groups):
        raise ConfigurationError(
            f"{name}: two apps have the same group ({', '.join(groups)}), so their metrics would have the "
            f"same names. Put all handlers into one app; to use more processes, run the app with members."
        )
    for one in apps:
        one.measure()


def measured(snapshot: Snapshot) -> tuple[tuple[tuple[Metric[Any], ...], Parts], ...]:
    """Return each table of the catalogue with the parts of a snapshot that its metrics are read from.

    Of a supervisor these are the members' parts: its own are their sums, which would count all twice.
    """
    labels = {"group": snapshot.group}
    if not snapshot.members:
        runs, members = [(labels, snapshot)], []
    else:
        members = [(labels | {"member": str(one.number)}, one) for one in snapshot.members]
        runs = [(of_member, one.snapshot) for of_member, one in members if one.snapshot is not None]
    handlers: Parts = [
        (of_run | {"handler": one.handler}, one) for of_run, run in runs for one in run.handlers
    ]
    partitions: Parts = [
        (of_run | {"topic": one.partition.topic, "partition": str(one.partition.partition)}, one)
        for of_run, run in runs
        for one in run.partitions
    ]
    return (APP, [*runs]), (HANDLER, handlers), (PARTITION, partitions), (MEMBER, [*members])
