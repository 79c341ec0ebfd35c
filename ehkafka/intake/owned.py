"""The partitions that are ours now. Written by the poll thread alone; others read copies.

Joins what the rooms know of a partition: its route and epoch, and its log. What waits is ours, too, and has
no epoch yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ehkafka.events import PartitionsWaiting
from ehkafka.intake.standstill import Standstill
from ehkafka.positions.log_states import LogStates
from ehkafka.progress.saving import ProgressSaver

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ehkafka.intake.route import Route
    from ehkafka.intake.unreadable import Halted
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.progress.ledger import Position
    from ehkafka.progress.saving import Locked
    from ehkafka.records import TopicPartition


class OwnedPartition(NamedTuple):
    """A partition of ours: who handles it, and its current epoch."""

    route: Route
    epoch: Epoch


class NoStart(NamedTuple):
    """Why it is not known where a partition of ours begins, and since when it waits for that."""

    reason: str
    since_s: float


class WaitingPartitions(dict["TopicPartition", NoStart]):
    """By partition, as `OwnedPartitions`."""

    def note(self, reasons: Mapping[TopicPartition, str], now_s: float) -> list[PartitionsWaiting]:
        """Let partitions wait; return the events of those that did not before."""
        new = {p: NoStart(reason, now_s) for p, reason in reasons.items() if p not in self}
        self.update({p: NoStart(reason, self[p].since_s) for p, reason in reasons.items() if p in self} | new)
        return waiting_events(new, now_s)


def waiting_events(waiting: Mapping[TopicPartition, NoStart], now_s: float) -> list[PartitionsWaiting]:
    """Return an event for each reason, with the partition that has waited longest."""
    reasons: dict[str, list[TopicPartition]] = {}
    for partition, one in sorted(waiting.items()):
        reasons.setdefault(one.reason, []).append(partition)
    return [
        PartitionsWaiting(tuple(named), reason, now_s - min(waiting[one].since_s for one in named))
        for reason, named in reasons.items()
    ]


class OwnedPartitions(dict["TopicPartition", OwnedPartition]):
    """By partition. A plain `(topic, partition)` tuple finds its entry too."""

    def __init__(self, saver: ProgressSaver | None = None) -> None:
        """Without a saver, commits say nothing of what is finished above them."""
        super().__init__()
        self.saver = saver or ProgressSaver()
        # Where the logs begin and end, and since when that is known.
        self.logs = LogStates()
        # Partitions of ours of which it is not known yet where they begin, and why.
        self.waiting = WaitingPartitions()
        # Partitions of which nothing can be read from an offset on.
        self.unreadable: dict[TopicPartition, Halted] = {}
        # Partitions whose share of the parked budget is full, with the key that has most of it.
        self.parked_full: dict[TopicPartition, str] = {}
        self.standstill = Standstill()
        # The numbers of the current epochs, and of the last ones.
        self.numbers: dict[TopicPartition, int] = {}
        self._last: dict[TopicPartition, int] = {}

    def begin(self, partition: TopicPartition) -> int:
        """Return the number of a new epoch of a partition that is not ours yet: never used before."""
        assert partition not in self.numbers, f"{partition} was assigned twice without a revoke"
        number = self._last[partition] = self.numbers[partition] = self._last.get(partition, 0) + 1
        return number

    def end(self, partition: TopicPartition) -> int | None:
        """End a partition's epoch and return its number, None when it was not ours."""
        return self.numbers.pop(partition, None)

    def epochs(self) -> Iterator[Epoch]:
        """Yield the current epochs."""
        return (owned.epoch for owned in self.values())

    def begin_of(self, partition: TopicPartition) -> int:
        """Return the next offset that is to be received of a partition of ours, at least."""
        known, received_next = self.logs.get(partition), self[partition].epoch.received.next_offset
        start = known.start if known is not None else None
        return max(start or 0, received_next or 0)

    def by_route(self, partitions: Iterable[TopicPartition]) -> dict[str, tuple[Route, list[Epoch]]]:
        """Group partitions of ours by their route, so that each lock is taken once."""
        grouped: dict[str, tuple[Route, list[Epoch]]] = {}
        for partition in partitions:
            owned = self[partition]
            grouped.setdefault(owned.route.name, (owned.route, []))[1].append(owned.epoch)
        return grouped

    def locked(self) -> list[Locked]:
        """Return all current epochs, by route with what locks it."""
        return [(route.hub.locked, epochs) for route, epochs in self.by_route(self).values()]

    def positions(self, *, in_full: bool = False) -> dict[TopicPartition, Position]:
        """Return what could be committed now, as `ProgressSaver.positions` does."""
        return self.saver.positions(self.locked(), in_full=in_full)
