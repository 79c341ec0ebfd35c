"""Where checkpoints lie: `store` is the protocol, `memory`, `file` and `blob` keep it.

`container` reads which container of Blob Storage is meant, `blob_errors` explains what the service answers.
A new store is a file and a name below, which `ehkafka.checkpoints` has, too.
"""

from __future__ import annotations

from ehkafka.checkpoints.stores.file import FileStore
from ehkafka.checkpoints.stores.memory import MemoryStore
from ehkafka.checkpoints.stores.store import (
    CheckpointStore,
    StoreConflictError,
    StoredBlob,
    StoreError,
    StoreForbiddenError,
    StoreMissingError,
    StoreUnavailableError,
    Version,
)

__all__ = [
    "CheckpointStore",
    "FileStore",
    "MemoryStore",
    "StoreConflictError",
    "StoreError",
    "StoreForbiddenError",
    "StoreMissingError",
    "StoreUnavailableError",
    "StoredBlob",
    "Version",
]
