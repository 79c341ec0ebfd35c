"""The order of a redrive, and its counts."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ehkafka.headers.size import size_of
from ehkafka.records import TopicPartition
from ehkafka.recovery.letters.letter import letter_origin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ehkafka.checks.topic_reader import TopicReader
    from ehkafka.records import Record
    from ehkafka.recovery.letters.letter import LetterOrigin

    # A record that is no dead letter has no origin.
    Letter = tuple[Record, LetterOrigin | None]

# How far a partition may be read ahead of another one.
AHEAD_RECORDS_MAX = 1_000
AHEAD_BYTES_MAX = 8 * 1024 * 1024


def as_written(reader: TopicReader) -> Iterator[Letter | None]:
    """Yield the dead letters of all partitions as they were written, and None after each look for more.

    Dead letters of one origin partition may be in several partitions, because their keys differ. This is the
    order in which they failed: in each lane a dead letter was written after the one before was acknowledged.
    """
    waiting: defaultdict[TopicPartition, deque[Letter]] = defaultdict(deque)
    sizes: Counter[TopicPartition] = Counter()
    for batch in reader.batches():
        for record in batch:
            partition = TopicPartition(record.topic(), record.partition())
            waiting[partition].append((record, letter_origin(record)))
            sizes[partition] += size_of(record)
        # Only while each partition that has more to read has one here: else an older one may still come.
        while all(waiting[one] for one in reader.unread) and (heads := [q for q in waiting.values() if q]):
            letter = min(heads, key=_written).popleft()
            sizes[TopicPartition(letter[0].topic(), letter[0].partition())] -= size_of(letter[0])
            yield letter
        full = {one for one, size in sizes.items() if size >= AHEAD_BYTES_MAX}
        full |= {one for one, letters in waiting.items() if len(letters) >= AHEAD_RECORDS_MAX}
        reader.hold(full & reader.unread.keys())
        yield None


def _written(letters: deque[Letter]) -> tuple[int, int, int]:
    """Return the time of a partition's first dead letter, then its origin's offset, for equal times."""
    record, origin = letters[0]
    tie = record.offset() if origin is None or origin.offset is None else origin.offset
    return record.timestamp()[1], tie, record.partition()


@dataclass(slots=True)
class RedriveCount:
    """What a redrive did, or would do. The redrive changes it while its caller reads it."""

    # Dead letters by the partition they went to. During a run the sender's thread counts them.
    to: Counter[TopicPartition] = field(default_factory=Counter)
    # Dead letters that the filter left out, and records that are no dead letters.
    passed_over: int = 0
    foreign: int = 0

    @property
    def redriven(self) -> int:
        """How many dead letters went home."""
        return self.to.total()

    @property
    def seen(self) -> int:
        """How many records were dealt with."""
        return self.redriven + self.passed_over + self.foreign
