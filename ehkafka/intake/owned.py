"""The partitions that are ours now. Written by the poll thread alone; others read copies.

Joins what the rooms know of a partition: its route and assignment, and its log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ehkafka.positions.log_book import LogBook
from ehkafka.progress.saving import ProgressSaver

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ehkafka.intake.route import Route
    from ehkafka.lanes.assignment import Assignment
    from ehkafka.progress.ledger import Position
    from ehkafka.progress.saving import Locked
    from ehkafka.records import TopicPartition


class OwnedPartition(NamedTuple):
    """A partition of ours: who handles it, and its current assignment."""

    route: Route
    assignment: Assignment


class OwnedPartitions(dict["TopicPartition", OwnedPartition]):
    """By partition. A plain `(topic, partition)` tuple finds its entry too."""

    def __init__(self, saver: ProgressSaver | None = None) -> None:
        """Without a saver, commits say nothing of what is finished above them."""
        super().__init__()
        self.saver = saver or ProgressSaver()
        # Where the logs begin and end, and since when that is known.
        self.logs = LogBook()

    def assignments(self) -> Iterator[Assignment]:
        """Yield the current assignments."""
        return (owned.assignment for owned in self.values())

    def by_route(self, partitions: Iterable[TopicPartition]) -> dict[str, tuple[Route, list[Assignment]]]:
        """Group partitions of ours by their route, so that each lock is taken once."""
        grouped: dict[str, tuple[Route, list[Assignment]]] = {}
        for partition in partitions:
            owned = self[partition]
            grouped.setdefault(owned.route.name, (owned.route, []))[1].append(owned.assignment)
        return grouped

    def locked(self) -> list[Locked]:
        """Return all current assignments, by route with what locks it."""
        return [(route.exchange.locked, assignments) for route, assignments in self.by_route(self).values()]

    def positions(self, *, in_full: bool = False) -> dict[TopicPartition, Position]:
        """Return what could be committed now, as `ProgressSaver.positions` does."""
        return self.saver.positions(self.locked(), in_full=in_full)
