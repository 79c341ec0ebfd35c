"""Runs: records of one partition that wait in one inbox with their keys unread, kept as they were received.

Pure; the caller has the lock. A run costs a list, whatever number of records it has; an entry is made of one
only where it is asked for.
"""

from __future__ import annotations

from collections import deque
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.inbox import Entry
    from ehkafka.records import Message


class _Unread:
    """The key of a record that was not read."""

    def __repr__(self) -> str:
        return "UNREAD"


UNREAD: Final = _Unread()


class Run:
    """Records of one partition, ascending. Those from the place `first` on are unfinished."""

    __slots__ = ("epoch", "first", "messages", "sizes")

    def __init__(self, epoch: Epoch, messages: Sequence[Message], sizes: Sequence[int]) -> None:
        self.epoch = epoch
        self.messages = messages
        self.sizes = sizes
        self.first = 0

    def __len__(self) -> int:
        return len(self.messages) - self.first

    def left(self) -> Sequence[Message]:
        """Return the messages of the unfinished ones."""
        return self.messages[self.first :] if self.first else self.messages

    def entries(self) -> Iterator[Entry]:
        """Yield the unfinished ones."""
        return islice(zip(self.messages, repeat(UNREAD), self.sizes, repeat(self.epoch)), self.first, None)


class RunLog(deque["Entry | Run"]):
    """The log of an inbox with unread records: entries and runs, in order. Reads like a deque of entries."""

    def __bool__(self) -> bool:
        return next(self.parts(), None) is not None

    def __len__(self) -> int:
        return sum(len(part) if isinstance(part, Run) else 1 for part in self.parts())

    def __iter__(self) -> Iterator[Entry]:
        parts = self.parts()
        return chain.from_iterable(part.entries() if isinstance(part, Run) else (part,) for part in parts)

    def parts(self) -> Iterator[Entry | Run]:
        """Yield the entries and the runs."""
        return super().__iter__()

    def take(self, records: int) -> tuple[list[Entry], list[tuple[Run, int, int]]]:
        """Remove so many records from the front: entries, and of runs those from a place to another."""
        entries: list[Entry] = []
        pieces: list[tuple[Run, int, int]] = []
        while records:
            part = self[0]
            if not isinstance(part, Run):
                entries.append(part)
                self.popleft()
                records -= 1
                continue
            first, part.first = part.first, min(len(part.messages), part.first + records)
            pieces.append((part, first, part.first))
            records -= part.first - first
            if not part:
                self.popleft()
                part.epoch.runs.popleft()
        return entries, pieces
