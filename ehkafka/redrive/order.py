"""The order of a redrive, and what came of it.

Pure. Letters of one origin partition may lie in several partitions of the dead-letter topic, because their
keys differ. Merged by the time they were written they come in the order in which they failed: of one lane
each was written after the one before was safe.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ehkafka.headers.size import size_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ehkafka.records import Record
    from ehkafka.recovery.letters.origin import LetterOrigin

    # What is not a letter has no origin.
    Letter = tuple[Record, LetterOrigin | None]
    from ehkafka.records import TopicPartition

# What one partition may be ahead of another that is read more slowly.
AHEAD_RECORDS_MAX = 1_000
AHEAD_BYTES_MAX = 8 * 1024 * 1024


class MergedLetters:
    """Takes letters partition by partition and returns them in one order."""

    def __init__(self, partitions: Iterable[int]) -> None:
        """`partitions` are those from which something is still to come."""
        self.unfinished = set(partitions)
        self._waiting: dict[int, deque[Letter]] = {number: deque() for number in self.unfinished}
        self._bytes = dict.fromkeys(self.unfinished, 0)

    def put(self, record: Record, origin: LetterOrigin | None) -> None:
        """Take the next letter of its partition."""
        number = record.partition()
        self._waiting[number].append((record, origin))
        self._bytes[number] += size_of(record)

    def finish(self, number: int) -> None:
        """Wait for nothing more of a partition."""
        self.unfinished.discard(number)

    def ahead(self) -> set[int]:
        """Return the partitions that have more waiting than they should, and more to come."""
        waiting, sizes = self._waiting, self._bytes
        return {
            number
            for number in self.unfinished
            if len(waiting[number]) >= AHEAD_RECORDS_MAX or sizes[number] >= AHEAD_BYTES_MAX
        }

    def take(self) -> Iterator[Letter]:
        """Yield what nothing that is still to come can precede."""
        while all(self._waiting[number] for number in self.unfinished):
            heads = [letters for letters in self._waiting.values() if letters]
            if not heads:
                return
            record, origin = min(heads, key=_written).popleft()
            self._bytes[record.partition()] -= size_of(record)
            yield record, origin


def _written(letters: deque[Letter]) -> tuple[int, int, int]:
    """Return when the oldest of a partition's letters was written; of the same time, what it is of."""
    record, origin = letters[0]
    tie = record.offset() if origin is None or origin.offset is None else origin.offset
    return record.timestamp()[1], tie, record.partition()


@dataclass(slots=True)
class RedriveCount:
    """What a redrive did, or would do: it changes this, others look at it.

    `to` counts the redriven by where they went. While they go, the sender's thread counts these, and the
    redrive's own the rest.
    """

    redriven: int = 0
    # Letters that the filter left out, and records that are no letters.
    passed_over: int = 0
    foreign: int = 0
    to: dict[TopicPartition, int] = field(default_factory=dict)

    @property
    def seen(self) -> int:
        """How many records were dealt with."""
        return self.redriven + self.passed_over + self.foreign

    def count(self, home: TopicPartition | None, *, is_letter: bool) -> None:
        """Count one record; `home` is None where it stays."""
        if home is not None:
            self.redriven += 1
            self.to[home] = self.to.get(home, 0) + 1
        elif is_letter:
            self.passed_over += 1
        else:
            self.foreign += 1
