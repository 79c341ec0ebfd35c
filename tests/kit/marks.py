"""One byte for each record of a topic, in a file that processes share: how often it was finished.

For runs of millions of records, whose histories would be too large. What a process has written is there for
the others at once, and stays when it is killed.
"""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# More often it is not counted.
TIMES_MAX = 255


class Marks:
    """The marks of `partitions` with room for so many records each. Any thread of any process."""

    def __init__(self, path: Path, partitions: int, records: int) -> None:
        """Open the file; make it, all zero, where there is none."""
        self.records = records
        with path.open("r+b" if path.exists() else "w+b") as file:
            file.truncate(partitions * records)
            self._bytes = mmap.mmap(file.fileno(), partitions * records)

    def add(self, partition: int, offset: int) -> None:
        """Note that a record was finished. Two processes at once may count as one."""
        place = partition * self.records + offset
        self._bytes[place] = min(self._bytes[place] + 1, TIMES_MAX)

    def has(self, partition: int, offset: int) -> bool:
        """Tell whether a record was ever finished."""
        return self._bytes[partition * self.records + offset] > 0

    def first_unfinished(self, partition: int, begin: int, end: int) -> int | None:
        """Return the first offset within these that was never finished; None without one."""
        base = partition * self.records
        found = self._bytes.find(b"\0", base + begin, base + end)
        return None if found < 0 else found - base

    def finished(self, partition: int, end: int) -> int:
        """Return how many offsets below `end` were finished."""
        base = partition * self.records
        return end - self._bytes[base : base + end].count(0)

    def repeated(self, partition: int, end: int) -> int:
        """Return how many offsets below `end` were finished more than once."""
        base = partition * self.records
        part = self._bytes[base : base + end]
        return len(part) - part.count(0) - part.count(1)

    def close(self) -> None:
        """Let go of the file."""
        self._bytes.close()
