"""The promises that were broken: counted by kind, the first few of each with words."""

from __future__ import annotations

import threading
from collections import Counter

SHOWN_EACH = 5


class Violations:
    """Any thread adds. One that names a record, as `level-1/2@17`, counts once."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.shown: list[str] = []
        self.all: list[str] = []
        # Of each level that has some: which kinds.
        self.by_level: dict[int, list[str]] = {}
        self._named: set[tuple[str, int, int, int]] = set()
        self._lock = threading.Lock()

    def blame(self, kind: str, text: str) -> None:
        """Note a violation."""
        with self._lock:
            self.counts[kind] += 1
            self.all.append(f"{kind}: {text}")
            if self.counts[kind] <= SHOWN_EACH:
                self.shown.append(f"{kind}: {text}")

    def named(self, level: int, partition: int, offset: int) -> bool:
        """Tell whether a record of a level has broken a promise."""
        return any((kind, level, partition, offset) in self._named for kind in self.counts)

    def by_record(self, kind: str, level: int, partition: int, offset: int, text: str) -> None:
        """Note a violation by a record, each kind once."""
        if (kind, level, partition, offset) not in self._named:
            self._named.add((kind, level, partition, offset))
            kinds = self.by_level.setdefault(level, [])
            kinds.extend({kind} - {*kinds})
            self.blame(kind, f"level-{level}/{partition}@{offset} {text}")
