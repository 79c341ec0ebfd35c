"""The ledger: a file that names all that a run creates, written before it is created.

What is not in a ledger is never removed. A ledger holds names and no secret. Any thread may add to it; once
it is closed nothing can be created any more, so that a probe that was left running leaves nothing.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from _live.probe import NotTried

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX = "ehkafka-live-"
RUN = re.compile(r"[0-9a-f]{16}")


class Ledger:
    """What one run creates on one namespace."""

    def __init__(self, path: Path, entries: dict[str, Any]) -> None:
        self.path = path
        self._entries = entries
        self._lock = threading.Lock()
        self._is_closed = False

    @classmethod
    def begin(cls, folder: Path, namespace: str) -> Self:
        """Begin the ledger of a new run, whose names cannot be guessed."""
        return cls.of_run(folder, namespace, secrets.token_hex(8))

    @classmethod
    def of_run(cls, folder: Path, namespace: str, run: str) -> Self:
        """Begin one for the names of that run."""
        entries = {"run": run, "namespace": namespace, "topics": [], "groups": [], "blobs": []}
        return cls(folder / f"{run}.json", entries)

    @classmethod
    def left_in(cls, folder: Path, namespace: str) -> Iterator[Self]:
        """Yield the ledgers of runs on this namespace that did not end."""
        for path in sorted(folder.glob("*.json")):
            entries = json.loads(path.read_text(encoding="utf-8"))
            if entries["namespace"] == namespace:
                yield cls(path, entries)

    @property
    def run(self) -> str:
        """The name of the run."""
        return str(self._entries["run"])

    @property
    def prefix(self) -> str:
        """What all names of the run begin with."""
        return f"{PREFIX}{self.run}-"

    @property
    def topics(self) -> list[str]:
        """The topics that it may have created."""
        return list(self._entries["topics"])

    @property
    def groups(self) -> list[str]:
        """The consumer groups that it may have created."""
        return list(self._entries["groups"])

    @property
    def blobs(self) -> list[str]:
        """The beginnings of the names of blobs that it may have written."""
        return list(self._entries["blobs"])

    def add(self, kind: str, name: str) -> None:
        """Write down what is about to be created. Raises `NotTried` once the run is being cleaned up."""
        with self._lock:
            if self._is_closed:
                raise NotTried("the run is over")
            if name not in self._entries[kind]:
                self._entries[kind].append(name)
                self._write()

    def remove(self, kind: str, name: str) -> None:
        """Forget what was removed."""
        with self._lock:
            self._entries[kind].remove(name)
            self._write()

    def close(self) -> None:
        """Let nothing more be created."""
        with self._lock:
            self._is_closed = True

    def end(self) -> None:
        """Remove the file if all is removed that it names."""
        with self._lock:
            if not any(self._entries[kind] for kind in ("topics", "groups", "blobs")):
                self.path.unlink(missing_ok=True)

    def _write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_suffix(".new")
        with draft.open("w", encoding="utf-8") as file:
            json.dump(self._entries, file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.path)


def state_folder(environ: dict[str, str]) -> Path:
    """Return where ledgers are kept, as the XDG base directories have it."""
    home = environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(home) / "ehkafka" / "live"
