"""Events of the mirror, the copy of the commits outside the broker."""

from __future__ import annotations

from datetime import UTC, datetime
from logging import DEBUG, WARNING
from typing import TYPE_CHECKING

from ehkafka.events.event import Event
from ehkafka.wording import counted, seconds
from ehkafka.wording.line import ending, names

if TYPE_CHECKING:
    from ehkafka.records import TopicPartition


class MirrorWritten(Event, level=DEBUG):
    """The mirror has these commits, which the broker had acknowledged before."""

    next_offsets: tuple[tuple[TopicPartition, int], ...]
    took_s: float

    def sentence(self) -> str:
        positions = names(f"{partition} up to {offset}" for partition, offset in self.next_offsets)
        return f"Mirrored {positions} in {seconds(self.took_s)}."


class MirrorUnavailable(Event, level=WARNING):
    """The mirror's store refuses writes. Reported once; the app continues to handle and commit records."""

    store: str
    error: str

    def sentence(self) -> str:
        return (
            f"Cannot write the mirror: {ending(self.error)} Records are handled and committed as before; the "
            "mirror catches up when its store answers again."
        )


class MirrorRecovered(Event):
    """The mirror's store accepts writes again."""

    store: str
    outage_s: float
    failed_attempts: int

    def sentence(self) -> str:
        return (
            f"The mirror in {self.store} works again, after {self.outage_s:.0f} s and "
            f"{counted(self.failed_attempts, 'failed attempt')}."
        )


class MirrorContested(Event, level=WARNING):
    """Another program wrote the mirror of this app's partition. Reported once per owner and assignment."""

    partition: TopicPartition
    blob: str
    owner: str
    their_next_offset: int
    our_next_offset: int | None

    def sentence(self) -> str:
        ours = "nothing" if self.our_next_offset is None else f"offset {self.our_next_offset}"
        return (
            f"The mirror of {self.partition} was written by {self.owner} (up to offset "
            f"{self.their_next_offset}) while this app had {ours} to write. The blob is {self.blob}. If this "
            "process was suspended, do nothing: another process has the partition now. If two apps have the "
            "same group name and container, give each app a container of its own."
        )


class MirrorForeign(Event, level=WARNING):
    """Another program wrote a partition's blob, so the app does not use it. Once per assignment."""

    partition: TopicPartition
    blob: str
    # What was seen there.
    reason: str

    def sentence(self) -> str:
        return (
            f"{self.blob} {self.reason}. ehkafka leaves this blob unchanged, so {self.partition} has no "
            "mirror. Give the mirror a container of its own, or delete the blob."
        )


class MirrorUsed(Event, level=WARNING):
    """The group had no commit for a partition, so reading begins at the mirror's offset."""

    partition: TopicPartition
    next_offset: int
    # Since 1970, by the clock of who wrote it.
    written_at_ms: int
    owner: str
    # How it was found out that the log is the same.
    proof: str

    def sentence(self) -> str:
        written = datetime.fromtimestamp(self.written_at_ms / 1000, UTC).isoformat(timespec="seconds")
        return (
            f"The group has no committed offset for {self.partition}, so reading starts at offset "
            f"{self.next_offset} of the mirror, which {self.owner or 'an earlier run'} wrote at {written}. "
            f"The topic is still the same one: {self.proof}."
        )


class MirrorBehind(Event, level=WARNING):
    """The app stopped before the mirror had the last commits of these partitions."""

    partitions: tuple[TopicPartition, ...]
    error: str

    def sentence(self) -> str:
        return (
            f"The app stopped before the mirror of {names(self.partitions)} was up to date: "
            f"{ending(self.error)} The group's commits are up to date. If the group loses its commits and "
            "the app starts from the mirror, some records are handled again."
        )
