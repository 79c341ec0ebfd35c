"""The ledger: a file that names all that a run creates, written before it is created.

What is not in a ledger is never removed, and of what is in it only what has a name of the run's own. A
ledger holds names and no secret. Any thread may add to it; once it is closed nothing can be created any more,
so that a probe that was left running leaves nothing. The file is locked for as long as its run lives, so that
no other process removes what is in use.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from _live.probe import NotTried
from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from typing import IO

PREFIX = "ehkafka-live-"
RUN = re.compile(r"[0-9a-f]{16}")
KINDS = ("topics", "groups", "blobs")


class Ledger:
    """What one run creates on one namespace."""

    def __init__(self, path: Path, entries: dict[str, Any]) -> None:
        self.path = path
        self._entries = entries
        self._lock = threading.Lock()
        self._is_closed = False
        # The open file that has the lock: always the one that is at `path`.
        self._file: IO[str] | None = None

    @classmethod
    def begin(cls, folder: Path, namespace: str) -> Self:
        """Begin the ledger of a new run, whose names cannot be guessed."""
        return cls.of_run(folder, namespace, secrets.token_hex(8))

    @classmethod
    def of_run(cls, folder: Path, namespace: str, run: str) -> Self:
        """Begin one for the names of that run."""
        entries: dict[str, Any] = {"run": run, "namespace": namespace, **{kind: [] for kind in KINDS}}
        return cls(folder / f"{run}.json", entries)

    @classmethod
    def left_in(cls, folder: Path, namespace: str) -> list[Self]:
        """Return the ledgers of runs on this namespace that did not end: yet, or ever (see `take`).

        Raises `ConfigurationError` where one is damaged.
        """
        found = []
        for path in sorted(folder.glob("*.json")):
            # A run that ends meanwhile removes its own.
            with suppress(FileNotFoundError):
                found.append(cls(path, _entries(path, path.read_text(encoding="utf-8"))))
        return [one for one in found if one.namespace == namespace]

    def take(self) -> bool:
        """Make it this process's, as it is now; return False where its run lives or has just ended.

        Raises `ConfigurationError` where it is damaged.
        """
        with suppress(FileNotFoundError, BlockingIOError), ExitStack() as opened:
            file = opened.enter_context(self.path.open(encoding="utf-8"))
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Its run may have written another one since.
            if os.path.samestat(os.fstat(file.fileno()), self.path.stat()):
                self._entries, self._file = _entries(self.path, file.read()), file
                opened.pop_all()
                return True
        return False

    @property
    def run(self) -> str:
        """The name of the run."""
        return str(self._entries["run"])

    @property
    def namespace(self) -> str:
        """The host name of the namespace."""
        return str(self._entries["namespace"])

    @property
    def prefix(self) -> str:
        """What all names of the run begin with."""
        return f"{PREFIX}{self.run}-"

    def owns(self, kind: str, name: str) -> bool:
        """Whether it is a name of the run's own; of blobs, the folder of a group of the run's own."""
        if kind != "blobs":
            return name.startswith(self.prefix)
        *_, group, end = ["", *name.split("/")]
        return not end and group.startswith(self.prefix)

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
            if not any(self._entries[kind] for kind in KINDS):
                self.path.unlink(missing_ok=True)
            if self._file is not None:
                self._file.close()
                self._file = None

    def _write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_suffix(".new")
        file = draft.open("w", encoding="utf-8")
        fcntl.flock(file, fcntl.LOCK_EX)
        json.dump(self._entries, file)
        file.flush()
        os.fsync(file.fileno())
        draft.replace(self.path)
        if self._file is not None:
            self._file.close()
        self._file = file


def _entries(path: Path, text: str) -> dict[str, Any]:
    """Return what a ledger holds."""
    try:
        found = json.loads(text)
        names = [name for kind in KINDS for name in found[kind]]
        is_whole = found["run"] == path.stem and RUN.fullmatch(path.stem) and found["namespace"]
    except (ValueError, TypeError, KeyError):
        is_whole, names = None, []
    if not is_whole or not all(isinstance(name, str) for name in names):
        raise ConfigurationError(
            f"{path} is no ledger of a run. Look for names in it that begin with {PREFIX}, then remove it."
        )
    return dict(found)


def state_folder(environ: dict[str, str]) -> Path:
    """Return where ledgers are kept, as the XDG base directories have it."""
    home = environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(home) / "ehkafka" / "live"
