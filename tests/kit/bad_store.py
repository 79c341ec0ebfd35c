"""A checkpoint store in memory that fails on demand: down, standing still, or losing answers.

For tests of code that writes into a store. Any thread may call it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ehkafka.checkpoints.stores.memory import MemoryStore
from ehkafka.checkpoints.stores.store import StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ehkafka.checkpoints.stores.store import StoredBlob, Version


# Nothing waits for ever, whatever a test forgets.
STUCK_S = 30.0


class BadStore(MemoryStore):
    """Refuses while `down`, stands still while `stuck` is not set, loses the answers of so many writes."""

    def __init__(self) -> None:
        super().__init__()
        self.down = False
        self.go = threading.Event()
        self.go.set()
        self.lost_answers = 0
        self.asked = 0
        # Every write that was carried out: name and metadata.
        self.written: list[tuple[str, dict[str, str]]] = []

    def list_blobs(self, prefix: str) -> Iterator[StoredBlob]:
        """List unless it is down."""
        self._pass()
        return super().list_blobs(prefix)

    def read(self, name: str) -> StoredBlob | None:
        """Read unless it is down."""
        self._pass()
        return super().read(name)

    def write(
        self, name: str, *, metadata: Mapping[str, str], body: bytes, expected: Version | None
    ) -> Version:
        """Write unless it is down; the answer may get lost."""
        self._pass()
        version = super().write(name, metadata=metadata, body=body, expected=expected)
        self.written.append((name, dict(metadata)))
        if self.lost_answers:
            self.lost_answers -= 1
            raise StoreUnavailableError("memory: the answer was lost.")
        return version

    def _pass(self) -> None:
        self.asked += 1
        self.go.wait(STUCK_S)
        if self.down:
            raise StoreUnavailableError("memory: it is down.")
