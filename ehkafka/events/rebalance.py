"""Events of a rebalance: one event for each partition, and one log line for all of them.

`PartitionsWaiting` is one event for all partitions that wait for the same reason.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from dataclasses import fields
from logging import WARNING
from typing import TYPE_CHECKING, Self

from ehkafka.events.event import Event
from ehkafka.wording import seconds
from ehkafka.wording.line import clause, ending, names, plain, returned

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ehkafka.records import TopicPartition

# What the lists of several events' fields are called, and fields that one line's events share.
_IN_LISTS = {
    "partition": "partitions",
    "epoch": "epochs",
    "position": "positions",
    "next_offset": "next_offsets",
}
_OF_ALL = {"reason", "silence_s"}
_NEW = "a new partition, so it is read from its beginning, not from start="


class Rebalanced(Event, ABC):
    """Base of the events that come for each partition of an assignment: the log has one line for all."""

    partition: TopicPartition
    epoch: int

    def shares_line_with(self, other: Event) -> bool:
        """Tell whether both belong to one line: they are of one kind."""
        return type(self) is type(other)

    def sentence(self) -> str:
        return self.sentence_of([self])

    @classmethod
    @abstractmethod
    def sentence_of(cls, gathered: Sequence[Self]) -> str:
        """Say one or several events of this kind in one sentence."""

    @classmethod
    def fields_of(cls, gathered: Sequence[Self]) -> dict[str, object]:
        """Return the fields of several events, a list for each, in the order of `partitions`."""
        found: dict[str, object] = {"event": cls.__name__}
        for name in (one.name for one in fields(cls) if one.name != "at_s"):
            values = [getattr(event, name) for event in gathered]
            if name == "partition":
                values = list(map(str, values))
            found[_IN_LISTS.get(name, name)] = values[0] if name in _OF_ALL else values
        return found


class PartitionsWaiting(Event, level=WARNING):
    """The start offsets of partitions are not known yet, because the broker or mirror does not answer."""

    partitions: tuple[TopicPartition, ...]
    reason: str
    waited_s: float = 0.0

    def sentence(self) -> str:
        is_one = len(self.partitions) == 1
        wait = "waits" if is_one else "wait"
        if self.waited_s >= 1:
            wait = f"{'has' if is_one else 'have'} waited for {seconds(self.waited_s)}"
        return (
            f"{names(self.partitions)} {wait} to be read: {ending(self.reason)} The app repeats the request; "
            "other partitions continue."
        )


class PartitionAssigned(Rebalanced):
    """The group gave this member a partition. `position`: an offset, or a start position in words.

    `is_new`: the partition was added to the topic after the group began, so the app reads it from its
    beginning, whatever `start` is.
    """

    position: str
    is_new: bool = False

    @classmethod
    def sentence_of(cls, gathered: Sequence[Self]) -> str:
        ranges = _ranges_of(gathered)
        positions = {event.read_from for event in gathered}
        if len(positions) == 1:
            each = "each " if len(gathered) > 1 else ""
            return f"Assigned {ranges}, {each}read from {plain(*positions)}."
        return (
            f"Assigned {ranges}: {names(f'{event.partition} from {event.read_from}' for event in gathered)}."
        )

    @property
    def read_from(self) -> str:
        """The position as a line says it."""
        return f"{self.position} ({_NEW})" if self.is_new else self.position


class PartitionRevoked(Rebalanced):
    """A partition was released after a drain. `next_offset`: the last commit; None if there was none."""

    next_offset: int | None
    returned_records: int
    reason: str

    def shares_line_with(self, other: Event) -> bool:
        return isinstance(other, PartitionRevoked) and other.reason == self.reason

    @classmethod
    def sentence_of(cls, gathered: Sequence[Self]) -> str:
        stored = [f"{e.partition} up to {e.next_offset}" for e in gathered if e.next_offset is not None]
        committed = f"committed {names(stored)}" if stored else "nothing committed"
        left = returned(sum(event.returned_records for event in gathered))
        return f"Released {_ranges_of(gathered)} ({clause(gathered[0].reason)}): {committed}; {left}."


class PartitionLost(Rebalanced, level=WARNING, subject="partition"):
    """The group took a partition away without a last commit; another member may have it already.

    `silence_s`: for how long no broker had answered, if that is the cause.
    """

    returned_records: int
    silence_s: float | None = None

    @classmethod
    def sentence_of(cls, gathered: Sequence[Self]) -> str:
        total = sum(event.returned_records for event in gathered)
        what, silence_s = f"Lost {_ranges_of(gathered)}", gathered[0].silence_s
        left = returned(total)
        if silence_s is not None:
            return (
                f"{what}: no broker has answered for {seconds(silence_s)}, so this process is no longer "
                f"a member of the group and could not commit; {left}. The process rejoins when a broker "
                f"answers."
            )
        who = " (another member may already have them)" if total else ""
        return (
            f"{what}: the group continued without this member, so this member could not commit; "
            f"{left}{who}. "
            "If this repeats, look for a blocked process or bad network, or raise session.timeout.ms."
        )


def _ranges_of(gathered: Iterable[Rebalanced]) -> str:
    """Name partitions shortly: `readings[0-3, 7], alerts[0]`."""
    in_order = sorted(event.partition for event in gathered)
    by_topic = itertools.groupby(in_order, key=lambda partition: partition.topic)
    return names(f"{topic}[{_ranges([p.partition for p in of_topic])}]" for topic, of_topic in by_topic)


def _ranges(numbers: list[int]) -> str:
    # Of consecutive numbers each one less its place in the list is the same.
    runs = itertools.groupby(enumerate(numbers), key=lambda placed: placed[1] - placed[0])
    ends = [(run[0][1], run[-1][1]) for run in (list(run) for _, run in runs)]
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ends)
