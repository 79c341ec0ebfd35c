"""A checkpoint store in this process's memory: for tests, and to try a mirror out. Any thread may call it."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from ehkafka.checkpoints.stores.store import StoreConflictError, StoredBlob

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ehkafka.checkpoints.stores.store import Version


class MemoryStore:
    """Keeps blobs until the process ends."""

    name = "memory"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Both under the lock.
        self._blobs: dict[str, StoredBlob] = {}
        self._writes = 0

    def list_blobs(self, prefix: str) -> Iterator[StoredBlob]:
        """Yield what is there now, by name, without bodies."""
        with self._lock:
            found = [self._blobs[name] for name in sorted(self._blobs) if name.startswith(prefix)]
        for blob in found:
            yield StoredBlob(blob.name, blob.version, blob.metadata, b"", blob.modified_at_ms)

    def read(self, name: str) -> StoredBlob | None:
        """Return a blob, None when there is none of that name."""
        with self._lock:
            return self._blobs.get(name)

    def write(
        self, name: str, *, metadata: Mapping[str, str], body: bytes, expected: Version | None
    ) -> Version:
        """Write a blob if it still has the `expected` version. Raises `StoreConflictError`."""
        with self._lock:
            there = self._blobs.get(name)
            if (there.version if there else None) != expected:
                raise StoreConflictError(f"memory: {name} has changed since ehkafka read {name}.")
            self._writes += 1
            version = str(self._writes)
            self._blobs[name] = StoredBlob(name, version, dict(metadata), body, int(time.time() * 1000))
        return version

    def close(self) -> None:
        """Nothing is open; what was kept stays."""
