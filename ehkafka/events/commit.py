"""What becomes of commits."""

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
    """The broker stored these next_offsets."""

    next_offsets: tuple[tuple[TopicPartition, int], ...]
    took_s: float

    def sentence(self) -> str:
        positions = names(f"{partition} up to {offset}" for partition, offset in self.next_offsets)
        return f"Committed {positions} in {seconds(self.took_s)}."


class CommitFailed(Event, level=WARNING):
    """A commit was refused; the partitions stay dirty unless they were lost."""

    partitions: tuple[TopicPartition, ...]
    error: str
    retriable: bool
    took_s: float = 0.0

    def sentence(self) -> str:
        step = (
            "The next commit retries; if the app restarts before that commit, more records are repeated."
            if self.retriable
            else "Retrying will not help: correct what the error names."
        )
        return f"The commit of {names(self.partitions)} failed: {ending(self.error)} {step}"

    def subject(self) -> Hashable:
        # Topics rather than partitions: which of them are dirty differs from commit to commit.
        return (frozenset(p.topic for p in self.partitions), self.retriable)


class CommitPaceBounded(Event, level=WARNING):
    """The settings ask for commits closer together than the service takes; logged once, at the start."""

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
    """What is finished above a commit does not fit into its metadata; reported once until it fits again.

    After a crash the offsets dropped are handled again, should they still be above the commit.
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
    """An epoch begins with offsets above the group's commit that an earlier one finished.

    Their records are received and not handled again. `source` says where that was found.
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
    """What is said to be finished above a commit is not believed, so those records are handled again."""

    partition: TopicPartition
    next_offset: int
    reason: str
    source: str

    def sentence(self) -> str:
        return (
            f"{self.partition}: the list of finished offsets above {self.next_offset} in {self.source} is "
            f"ignored: {ending(self.reason)} No record is skipped; some records may be handled again."
        )
