"""The partitions that are ours now. Written by the poll thread alone; others read copies.

Joins what the rooms know of a partition: its route and assignment, and where its log ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ehkafka.progress.ledger import Position

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ehkafka.intake.route import Route
    from ehkafka.lanes.assignment import Assignment
    from ehkafka.records import TopicPartition


class OwnedPartition(NamedTuple):
    """A partition of ours: who handles it, and its current assignment."""

    route: Route
    assignment: Assignment


class OwnedPartitions(dict["TopicPartition", OwnedPartition]):
    """By partition. A plain `(topic, partition)` tuple finds its entry too."""

    def __init__(self) -> None:
        super().__init__()
        # Offset after the last record in the log, as far as the last fetch told.
        self.log_ends: dict[TopicPartition, int] = {}

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

    def positions(self) -> dict[TopicPartition, Position]:
        """Compute what could be committed now. Takes each route's lock once; O(live lanes)."""
        found: dict[TopicPartition, Position] = {}
        for route, assignments in self.by_route(self).values():
            with route.exchange.locked():
                for assignment in assignments:
                    if (position := position_of(assignment)) is not None:
                        found[assignment.partition] = position
        return found


def position_of(assignment: Assignment) -> Position | None:
    """Compute what an assignment could commit; None while it has no position. Caller has the lock."""
    next_offset = assignment.watermark()
    if next_offset is None:
        return None
    assignment.trim_marks(next_offset)
    mark = assignment.mark_at(next_offset - 1)
    return Position(assignment.epoch, next_offset, mark.leader_epoch if mark else None, assignment.metadata)
