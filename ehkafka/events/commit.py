"""Events of commits."""

from __future__ import annotations

from logging import DEBUG, WARNING
from typing import TYPE_CHECKING

from ehkafka.events.event import Event
from ehkafka.wording import counted, seconds
from ehkafka.wording.line import ending, names

if TYPE_CHECKING:
    from collections.abc import Hashable

    from ehkafka.records import TopicPartition


class CommitAcknowledged(Event, level=DEBUG):
    """The broker has stored these commits; `next_offsets` has the committed offset of each partition."""

    next_offsets: tuple[tuple[TopicPartition, int], ...]
    took_s: float

    def sentence(self) -> str:
        positions = names(f"{partition} up to {offset}" for partition, offset in self.next_offsets)
        return f"Committed {positions} in {seconds(self.took_s)}."


class CommitFailed(Event, level=WARNING):
    """A commit failed. The next commit includes its partitions, unless they were lost."""

    partitions: tuple[TopicPartition, ...]
    error: str
    retriable: bool
    took_s: float = 0.0

    def sentence(self) -> str:
        step = (
            "The next commit retries; if the app restarts before the next commit, the records of the failed "
            "commit are handled again."
            if self.retriable
            else "Retrying will not help: correct what the error names."
        )
        return f"The commit of {names(self.partitions)} failed: {ending(self.error)} {step}"

    def subject(self) -> Hashable:
        # Topics rather than partitions: which of them are dirty differs from commit to commit.
        return (frozenset(p.topic for p in self.partitions), self.retriable)


class CommitPaceBounded(Event, level=WARNING):
    """The settings ask for more frequent commits than the service allows. Logged once, at the start."""

    interval_s: float
    every_records: int | None
    spacing_s: float

    def sentence(self) -> str:
        asked = [f"commit_interval_s={self.interval_s:g}"] if self.interval_s < self.spacing_s else []
        if self.every_records is not None:
            asked.append(f"commit_every_records={self.every_records}")
        return (
            f"{' and '.join(asked)} cannot make commits more frequent: Event Hubs limits the commits of each "
            f"partition, so the app waits at least {seconds(self.spacing_s)} between two commits."
        )


class ProgressTruncated(Event, level=WARNING):
    """The list of offsets finished out of order does not fit into the commit's metadata.

    Reported once, until the list fits again. After a crash, the records of `dropped_offsets` can be repeated.
    """

    partition: TopicPartition
    kept_offsets: int
    dropped_offsets: int
    bytes_max: int

    def sentence(self) -> str:
        return (
            f"{self.partition}: the commit's metadata ({self.bytes_max} bytes) has room for "
            f"{self.kept_offsets} of the offsets finished out of order, not for {self.dropped_offsets} "
            "more. If the app crashes, the records at these other offsets may be handled again."
        )


class ProgressRestored(Event):
    """At an assignment, the commit or the mirror lists offsets that were finished out of order.

    The records of these offsets are received and not handled again. `source` has the list.
    """

    partition: TopicPartition
    epoch: int
    next_offset: int
    finished_offsets: int
    ranges: int
    source: str

    def sentence(self) -> str:
        return (
            f"{self.partition}, epoch {self.epoch}: according to {self.source}, "
            f"{counted(self.finished_offsets, 'offset')} above {self.next_offset} ({self.ranges} ranges) "
            "are finished; their records are not handled again."
        )


class ProgressIgnored(Event, level=WARNING):
    """A list of offsets finished out of order is not used, so the records are handled again."""

    partition: TopicPartition
    next_offset: int
    reason: str
    source: str

    def sentence(self) -> str:
        return (
            f"{self.partition}: the list of finished offsets above {self.next_offset} in {self.source} is "
            f"ignored: {ending(self.reason)} No record is skipped; some records may be handled again."
        )
