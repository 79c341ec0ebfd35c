"""The partitions that are ours now. Written by the poll thread alone; others read copies.

Joins what the rooms know of a partition: its route and assignment, and where its log ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ehkafka.progress.saving import Detail, ProgressSaver

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ehkafka.intake.route import Route
    from ehkafka.lanes.assignment import Assignment
    from ehkafka.progress.ledger import Position
    from ehkafka.progress.saving import Sample
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
        # Offset after the last record in the log, as far as the last fetch reported.
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

    def positions(self, *, in_full: bool = False) -> dict[TopicPartition, Position]:
        """Compute what could be committed now. Takes each route's lock once; O(backlog) at most.

        Unless `in_full`, what is finished above may be left out where it takes too long to find.
        """
        saver = self.saver
        detail = saver.begin_tick(sum(assignment.unfinished_records for assignment in self.assignments()))
        if in_full:
            detail = Detail.ALL
        found: list[Sample] = []
        for route, assignments in self.by_route(self).values():
            with route.exchange.locked():
                samples = [saver.sample(assignment, detail) for assignment in assignments]
            found += [sample for sample in samples if sample is not None]
        positions = {sample.assignment.partition: saver.position(sample) for sample in found}
        saver.end_tick(detail)
        return positions
