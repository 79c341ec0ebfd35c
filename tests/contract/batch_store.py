"""A batch handler that keeps what it was given and does what a test says with it."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ehkafka


class Store:
    """A batch handler that keeps what it was given and does what a test says with it."""

    def __init__(self, work: Any = None) -> None:
        self.work = work
        self.gate = threading.Event()
        self.gate.set()
        self.batches: list[list[tuple[int, int]]] = []
        self.sizes: list[int] = []
        self.attempts: dict[tuple[int, int], list[int]] = defaultdict(list)
        self.running = self.running_max = self.finished = 0
        self.keys: Counter[Any] = Counter()
        self.wrong: list[str] = []
        self._lock = threading.Lock()

    def __call__(self, batch: ehkafka.Batch) -> None:
        """Handle a batch."""
        keys = {(record.partition(), record.key()) for record in batch}
        with self._lock:
            self.batches.append([(record.partition(), record.offset()) for record in batch])
            self.sizes.append(len(batch))
            for record in batch:
                self.attempts[record.partition(), record.offset()].append(record.attempt)
            self.running += 1
            self.running_max = max(self.running, self.running_max)
            self.wrong += [f"{key} is in two batches at once" for key in keys if self.keys[key]]
            self.keys.update(keys)
        try:
            assert self.gate.wait(30.0)
            if self.work is not None:
                self.work(batch)
        finally:
            with self._lock:
                self.running -= 1
                self.keys.subtract(keys)
        with self._lock:
            self.finished += len(batch)

    def open_all(self) -> None:
        """Let every blocked call go on."""
        self.gate.set()

    def offsets(self, partition: int = 0) -> list[list[int]]:
        """The offsets of each batch that has records of a partition."""
        found = [[o for p, o in batch if p == partition] for batch in self.batches]
        return [offsets for offsets in found if offsets]
