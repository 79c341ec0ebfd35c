"""A checkpoint store in a folder: one file a blob, replaced whole, readable by its owner alone.

For one machine, or a shared disk whose `flock` works between its machines. A file begins with one line of
JSON (metadata, and a mark that makes each write's content its own); the body follows. Processes exclude
one another by a lock file while they look at a version and replace it. Any thread may call it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from ehkafka.checkpoints.mirror.body import BODY_BYTES_MAX
from ehkafka.checkpoints.stores.store import (
    StoreConflictError,
    StoredBlob,
    StoreError,
    StoreForbiddenError,
    StoreMissingError,
    StoreUnavailableError,
)
from ehkafka.errors import ConfigurationError
from ehkafka.wording import ended, seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ehkafka.checkpoints.stores.store import Version

LOCK = ".lock"
# Begins the names of files that are not finished yet, or never were.
UNFINISHED = ".new-"
# What we write is smaller; of a larger file no more is read, and its body comes empty.
FILE_BYTES_MAX = BODY_BYTES_MAX + 65_536
# A write takes milliseconds: who has the lock for longer was stopped, or his disk hangs.
LOCK_S = 5.0
_LOCK_PAUSE_S = 0.01


class FileStore:
    """Keeps blobs below a folder.

    - `folder` (required): its path. It must exist (else `StoreMissingError`), and all replicas share it.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        path = os.fspath(folder) if isinstance(folder, str | os.PathLike) else None
        if not isinstance(path, str) or not path or "\0" in path:
            raise ConfigurationError(f"FileStore: {folder!r:.80} is not the path of a folder: give a path.")
        self._folder = Path(path).expanduser().absolute()

    @property
    def name(self) -> str:
        """The folder."""
        return str(self._folder)

    def list_blobs(self, prefix: str) -> Iterator[StoredBlob]:
        """Yield the blobs below a prefix by name, without bodies."""
        with self._explained(prefix):
            self._must_be_there()
            found = sorted(self._names(prefix))
        for name in found:
            blob = self.read(name)
            if blob is not None:  # not removed since
                yield StoredBlob(name, blob.version, blob.metadata, b"", blob.modified_at_ms)

    def read(self, name: str) -> StoredBlob | None:
        """Return a blob, None when there is none of that name."""
        with self._explained(name):
            self._must_be_there()
            return self._read(self._path(name), name)

    def write(
        self, name: str, *, metadata: Mapping[str, str], body: bytes, expected: Version | None
    ) -> Version:
        """Replace a blob if it still has the `expected` version. Raises `StoreConflictError`."""
        path = self._path(name)
        content = self._content(metadata, body)
        with self._explained(name), self._locked():
            there = self._read(path, name)
            if (there.version if there else None) != expected:
                raise StoreConflictError(
                    f"{self.name}: another program has written {name} since ehkafka read the file."
                )
            self._make_folders(path.parent)
            _replace(path, content)
        return _version(content)

    def close(self) -> None:
        """Nothing stays open."""

    def _content(self, metadata: Mapping[str, str], body: bytes) -> bytes:
        head = orjson.dumps({"ehkafka": secrets.token_hex(8), "metadata": dict(metadata)})
        return head + b"\n" + body

    def _names(self, prefix: str) -> Iterator[str]:
        start = self._path(prefix.rpartition("/")[0]) if "/" in prefix else self._folder
        for folder, _, files in os.walk(start, onerror=_unless_missing):
            for file in files:
                name = Path(folder, file).relative_to(self._folder).as_posix()
                if name.startswith(prefix) and not file.startswith(UNFINISHED) and name != LOCK:
                    yield name

    def _path(self, name: str) -> Path:
        parts = name.split("/")
        if not all(part.strip(".") for part in parts) or "\0" in name or parts[-1].startswith(UNFINISHED):
            raise StoreError(f"{self.name}: {name!r} is not the name of a file in that folder.")
        return self._folder.joinpath(*parts)

    @staticmethod
    def _read(path: Path, name: str) -> StoredBlob | None:
        try:
            content, modified_at_ms = _read_file(path)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return None
        metadata, body = parted(content) if len(content) <= FILE_BYTES_MAX else ({}, b"")
        return StoredBlob(name, _version(content), metadata, body, modified_at_ms)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Exclude other processes and threads; the kernel drops the lock of one that dies."""
        self._must_be_there()
        lock = os.open(self._folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._acquire(lock)
            yield
        finally:
            os.close(lock)

    def _acquire(self, lock: int) -> None:
        deadline_s = time.monotonic() + LOCK_S
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline_s:
                    raise StoreUnavailableError(
                        f"{self.name}: another process has held the file {LOCK} for {seconds(LOCK_S)}: "
                        f"look for a process that is suspended or hangs."
                    ) from None
                time.sleep(_LOCK_PAUSE_S)
            else:
                return

    def _must_be_there(self) -> None:
        # Not made here: a disk that is not mounted would silently be replaced by an empty folder.
        if not self._folder.is_dir():
            raise StoreMissingError(f"The folder {self.name} for checkpoints does not exist: create it.")

    def _make_folders(self, folder: Path) -> None:
        if folder != self._folder and not folder.is_dir():
            self._make_folders(folder.parent)
            folder.mkdir(mode=0o700, exist_ok=True)
            _sync(folder.parent)

    @contextlib.contextmanager
    def _explained(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            text = f"{self.name}: {name}: {error.strerror or type(error).__name__}"
            if isinstance(error, PermissionError) or error.errno == errno.EROFS:
                raise StoreForbiddenError(
                    f"{ended(text)} Let this user read and write in the folder."
                ) from error
            if error.errno in {errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR}:
                raise StoreError(f"{ended(text)} Choose another group name or folder.") from error
            raise StoreUnavailableError(f"{ended(text)} Check the disk.") from error


def _replace(path: Path, content: bytes) -> None:
    """Write to a second file and rename it last: a reader sees the old one or the new one."""
    unfinished = path.with_name(f"{UNFINISHED}{secrets.token_hex(8)}")
    handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    _sync(path.parent)


def _read_file(path: Path) -> tuple[bytes, int]:
    """Return what is in a file, as far as it is read, and when it was written (ms)."""
    # Without waiting, which a pipe without a writer would make us do.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(handle)
        modified_at_ms = status.st_mtime_ns // 1_000_000
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, "Is a directory", str(path))
        if not stat.S_ISREG(status.st_mode):
            return b"", modified_at_ms  # a pipe or a device has no end
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read(FILE_BYTES_MAX + 1), modified_at_ms
    finally:
        os.close(handle)


def _unless_missing(error: OSError) -> None:
    # A folder that may not be read is no empty one.
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error


def _sync(folder: Path) -> None:
    """Make a rename outlive a power cut."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _version(content: bytes) -> Version:
    return hashlib.sha256(content).hexdigest()[:32]


def parted(content: bytes) -> tuple[dict[str, str], bytes]:
    """Return metadata and body; a file of another program is all body."""
    head, _, body = content.partition(b"\n")
    try:
        found = orjson.loads(head)
    except ValueError:
        return {}, content
    if not isinstance(found, dict) or "ehkafka" not in found or not isinstance(found.get("metadata"), dict):
        return {}, content
    return {str(name): str(value) for name, value in found["metadata"].items()}, body
