"""Which alarms people have acknowledged: a small SQLite file of the page's own, which outlives its process.

All alarms of a home's sensor up to a time are acknowledged together; a later one is open again. Any thread.
"""

from __future__ import annotations

import sqlite3
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_TABLE = """
create table if not exists acknowledged (
    home integer, kind text, up_to_us integer, at_s real, primary key (home, kind, up_to_us)
) without rowid
"""


class Acknowledged:
    """Notes what was acknowledged. To be closed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._database = connect(path)
        # Unlike the table's file, nothing else has what is in this one.
        self._database.execute("pragma synchronous = normal")
        self._database.execute(_TABLE)

    def add(self, home: int, kind: str, up_to_us: int, at_s: float) -> None:
        """Note that a home's alarms of a kind, up to a time, were acknowledged; the first time counts."""
        with self._lock, self._database as database:
            database.execute(
                "insert or ignore into acknowledged values (?, ?, ?, ?)", (home, kind, up_to_us, at_s)
            )

    def forget(self, before_us: int) -> None:
        """Drop what was acknowledged of alarms that are kept no more."""
        with self._lock, self._database as database:
            database.execute("delete from acknowledged where up_to_us < ?", (before_us,))

    def close(self) -> None:
        """Close the file; it stays."""
        with self._lock:
            self._database.close()


def connect(path: Path) -> sqlite3.Connection:
    """Open a file that several threads use, each of them while it has the owner's lock."""
    database = sqlite3.connect(path, check_same_thread=False)
    database.execute("pragma journal_mode = wal")
    # The blobs are the truth: after a crash the file is not even looked at again.
    database.execute("pragma synchronous = off")
    return database
