"""Checkpoints as plain files: a container that was copied to a folder, or a list of its blobs.

Read and written by commands on the main thread; not a store for a running app, because nothing guards its
writes. A file's path below the folder is the blob's name. Files have no metadata: a blob without a body is
a file whose JSON is that metadata. Files of `FileStore`, which have both, are read as it writes them. A list
is what `az storage blob list --include m -o json` prints.
"""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from ehkafka.checkpoints.formats.json import JsonForm, read_body
from ehkafka.checkpoints.mirror.body import BODY_BYTES_MAX
from ehkafka.checkpoints.stores.file import LOCK, UNFINISHED, parted
from ehkafka.checkpoints.stores.store import (
    StoreConflictError,
    StoredBlob,
    StoreError,
    StoreForbiddenError,
    StoreMissingError,
    StoreUnavailableError,
)
from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ehkafka.checkpoints.stores.store import Version

_LIST_BYTES_MAX = 64 * 1024 * 1024


class CheckpointFolder:
    """A folder in the place of a container. Keeps the protocol of a store, for one caller at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def name(self) -> str:
        """Where it is."""
        return str(self._folder)

    def list_blobs(self, prefix: str) -> Iterator[StoredBlob]:
        """Yield the files; links are not followed out of the folder."""
        if not self._folder.is_dir():
            raise StoreMissingError(f"There is no folder {self.name}. Correct the path.")
        for path in sorted(self._files()):
            name = path.relative_to(self._folder).as_posix()
            is_own = path.name == LOCK or path.name.startswith(UNFINISHED)
            if name.startswith(prefix) and not is_own and path.is_file() and not path.is_symlink():
                blob = self.read(name)
                if blob is not None:  # not removed since
                    modified_at_ms = int(path.stat().st_mtime * 1000)
                    yield StoredBlob(name, blob.version, blob.metadata, modified_at_ms=modified_at_ms)

    def read(self, name: str) -> StoredBlob | None:
        """Return a file; of a large one only so much that it is seen to be too large."""
        path = self._path(name)
        try:
            with path.open("rb") as file:
                content = file.read(BODY_BYTES_MAX + 1)
        except FileNotFoundError:
            return None
        except PermissionError as error:
            raise _forbidden(error) from None
        except OSError as error:
            raise StoreUnavailableError(f"{path} cannot be read: {error.strerror}.") from None
        metadata, body = parted(content)
        return StoredBlob(name, sha256(content).hexdigest(), metadata or _flat(body), body)

    def write(
        self, name: str, *, metadata: Mapping[str, str], body: bytes, expected: Version | None
    ) -> Version:
        """Write a file; the metadata is its JSON where it has no body."""
        path = self._path(name)
        there = self.read(name)
        if (None if there is None else there.version) != expected:
            raise StoreConflictError(f"{path} was written by another program meanwhile: look at it first.")
        whole = body or orjson.dumps(dict(metadata))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(whole)
        except OSError as error:
            raise StoreUnavailableError(f"{path} cannot be written: {error.strerror}.") from None
        return sha256(whole).hexdigest()

    def close(self) -> None:
        """Nothing is kept open."""

    def _path(self, name: str) -> Path:
        if name.startswith("/") or ".." in name.split("/"):
            raise StoreError(f"{self.name}: {name!r} is no name of a file below that folder.")
        return self._folder / name

    def _files(self) -> Iterator[Path]:
        def refuse(error: OSError) -> None:
            # Else its checkpoints would be missing without a word.
            raise _forbidden(error) from None

        for folder, _, files in os.walk(self._folder, onerror=refuse):
            yield from (Path(folder, file) for file in files)


class BlobList:
    """A list of blobs with their metadata, as a program of Azure's printed it. It is only read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._blobs: dict[str, StoredBlob] | None = None

    @property
    def name(self) -> str:
        """Where it is."""
        return str(self._path)

    def list_blobs(self, prefix: str) -> Iterator[StoredBlob]:
        """Yield the blobs of the list."""
        for name, blob in self._read().items():
            if name.startswith(prefix):
                yield blob

    def read(self, name: str) -> StoredBlob | None:
        """Return what the list says of a blob: no body, which a list does not have."""
        return self._read().get(name)

    def write(
        self, name: str, *, metadata: Mapping[str, str], body: bytes, expected: Version | None
    ) -> Version:
        """Refuse: a list holds what another program saw."""
        del name, metadata, body, expected
        raise ConfigurationError(f"{self.name} is a list of blobs, which is only read: give a folder.")

    def close(self) -> None:
        """Nothing is kept open."""

    def _read(self) -> dict[str, StoredBlob]:
        if self._blobs is None:
            self._blobs = {blob.name: blob for blob in _listed(self._path)}
        return self._blobs


def _forbidden(error: OSError) -> StoreForbiddenError:
    return StoreForbiddenError(
        f"{error.filename} may not be read by this user ({error.strerror}): grant the right, or copy it."
    )


def _flat(body: bytes) -> dict[str, str]:
    """Return the metadata that is all of a file."""
    found = read_body(body)
    if found is None or found.form is not JsonForm.METADATA:
        return {}
    return {str(name).lower(): str(value) for name, value in found.fields.items()}


def _listed(path: Path) -> Iterator[StoredBlob]:
    try:
        if path.stat().st_size > _LIST_BYTES_MAX:
            raise ConfigurationError(f"{path} is larger than any list of checkpoints: is it the right file?")
        found: Any = orjson.loads(path.read_bytes())
    except OSError as error:
        raise StoreMissingError(f"{path} cannot be read: {error.strerror}. Correct the path.") from None
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, list):
        raise ConfigurationError(
            f"{path} is no list of blobs. Make one with: az storage blob list --include m -o json"
            " --account-name … --container-name …"
        )
    for entry in found:
        if isinstance(entry, dict) and isinstance(entry.get("name"), str):
            metadata = entry.get("metadata")
            fields = metadata.items() if isinstance(metadata, dict) else ()
            yield StoredBlob(entry["name"], "", {str(name): str(value) for name, value in fields})
