"""A checkpoint store of your own, here in SQLite: all that `StoreMirror(store=…)` needs."""

import json
import sqlite3
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager

from ehkafka.checkpoints import StoreConflictError, StoredBlob, StoreUnavailableError, Version


class SqliteStore:
    """Keeps blobs in one table of a file; any process may write it."""

    def __init__(self, path: str) -> None:
        self.name = path  # people see it, so it must hold no secret

    def list_blobs(self, prefix: str) -> Iterator[StoredBlob]:
        """Yield what is there by name, without bodies."""
        with self._table() as blobs:
            rows = blobs.execute("SELECT name, version, metadata FROM blobs ORDER BY name").fetchall()
        return (StoredBlob(row[0], row[1], json.loads(row[2])) for row in rows if row[0].startswith(prefix))

    def read(self, name: str) -> StoredBlob | None:
        """Return a blob, None if none has that name."""
        with self._table() as blobs:
            row = blobs.execute("SELECT * FROM blobs WHERE name = ?", (name,)).fetchone()
        return row and StoredBlob(name, row[1], json.loads(row[2]), row[3])

    def write(
        self, name: str, *, metadata: Mapping[str, str], body: bytes, expected: Version | None
    ) -> Version:
        """Replace a blob that still has the `expected` version; None: no blob may be there."""
        version = uuid.uuid4().hex  # a new one for each write, even of the same content
        with self._table() as blobs:
            row = blobs.execute("SELECT version FROM blobs WHERE name = ?", (name,)).fetchone()
            if (row and row[0]) != expected:
                raise StoreConflictError(f"{self.name}: another process wrote {name} meanwhile.")
            blobs.execute(
                "REPLACE INTO blobs VALUES (?, ?, ?, ?)", (name, version, json.dumps(dict(metadata)), body)
            )
        return version

    def close(self) -> None:
        """Do nothing: each call opens the file and closes it."""

    @contextmanager
    def _table(self) -> Iterator[sqlite3.Connection]:
        """Give one transaction; SQLite lets one process at a time have it."""
        try:
            with closing(sqlite3.connect(self.name, timeout=5, isolation_level=None)) as db, db:
                db.execute("BEGIN IMMEDIATE")
                db.execute("CREATE TABLE IF NOT EXISTS blobs (name PRIMARY KEY, version, metadata, body)")
                yield db
        except sqlite3.Error as error:
            raise StoreUnavailableError(f"{self.name}: {error}. It is retried.") from error
