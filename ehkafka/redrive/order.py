"""The order of a redrive, how far it has come, and what came of it.

Pure. Letters of one origin partition may lie in several partitions of the dead-letter topic, because their
keys differ. Merged by the time they were written they come in the order in which they failed: of one lane
each was written after the one before was safe.
"""

from __future__ import annotations

import heapq
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
        self._unfinished = set(partitions)
        self._waiting: dict[int, deque[Letter]] = {number: deque() for number in self._unfinished}
        self._bytes = dict.fromkeys(self._unfinished, 0)
        # (written at, origin offset, partition) of the oldest waiting letter of each partition.
        self._heads: list[tuple[int, int, int]] = []

    def put(self, record: Record, origin: LetterOrigin | None) -> None:
        """Take the next letter of its partition."""
        number = record.partition()
        self._waiting[number].append((record, origin))
        self._bytes[number] += size_of(record)
        if len(self._waiting[number]) == 1:
            self._raise_head(number)

    def finish(self, number: int) -> None:
        """Wait for nothing more of a partition."""
        self._unfinished.discard(number)

    @property
    def unfinished(self) -> frozenset[int]:
        """The partitions from which something is still to come."""
        return frozenset(self._unfinished)

    def is_ahead(self, number: int) -> bool:
        """Tell whether a partition has more waiting than it should."""
        return len(self._waiting[number]) >= AHEAD_RECORDS_MAX or self._bytes[number] >= AHEAD_BYTES_MAX

    def take(self) -> Iterator[Letter]:
        """Yield what nothing that is still to come can precede."""
        while self._heads and all(self._waiting[number] for number in self._unfinished):
            number = heapq.heappop(self._heads)[-1]
            letter = self._waiting[number].popleft()
            self._bytes[number] -= size_of(letter[0])
            if self._waiting[number]:
                self._raise_head(number)
            yield letter

    def _raise_head(self, number: int) -> None:
        record, origin = self._waiting[number][0]
        tie = record.offset() if origin is None or origin.offset is None else origin.offset
        heapq.heappush(self._heads, (record.timestamp()[1], tie, number))


class SafeBelow:
    """Offsets below which every dead letter is safe at home or passed over: what may be committed.

    Those of one partition are `passed` or `sent` in the order of their offsets.
    """

    def __init__(self, begins: dict[int, int]) -> None:
        """`begins` are the offsets from which each partition is read."""
        # Behind the last one; and what `changed` returned last.
        self._next, self._safe = begins.copy(), begins.copy()
        # Where those go that are not safe yet, by partition and offset.
        self._open: dict[int, dict[int, TopicPartition]] = {number: {} for number in begins}

    def passed(self, number: int, offset: int) -> None:
        """Note one that stays where it is."""
        self._next[number] = offset + 1

    def sent(self, number: int, offset: int, home: TopicPartition) -> None:
        """Note one that is sent home."""
        self._open[number][offset] = home
        self._next[number] = offset + 1

    def came_home(self, number: int, offset: int) -> TopicPartition:
        """Note that one is safe at home, and return where that is."""
        return self._open[number].pop(offset)

    def oldest(self) -> tuple[str, TopicPartition] | None:
        """Return one that is not safe yet while all below it in its partition are, and its home."""
        for number, homes in self._open.items():
            for offset, home in homes.items():
                return f"{number}@{offset}", home
        return None

    def ended(self, number: int, end: int) -> None:
        """Note that nothing is left of a partition up to its end, whatever offsets the log does not hold."""
        self._next[number] = max(end, self._next[number])

    def changed(self) -> dict[int, int]:
        """Return the next offsets of the partitions that moved since the last call."""
        safe = {number: next(iter(homes), self._next[number]) for number, homes in self._open.items()}
        moved = {number: offset for number, offset in safe.items() if offset > self._safe[number]}
        self._safe = safe
        return moved


@dataclass(slots=True)
class RedriveCount:
    """What a redrive did, or would do: it changes this, others look at it.

    `to` counts the redriven by where they went.
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
