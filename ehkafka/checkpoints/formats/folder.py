"""Checkpoints as plain files: a container that was copied to a folder, or a list of its blobs.

Read and written by commands on the main thread; not a store for a running app, because nothing guards its
writes. A file's path below the folder is the blob's name. Files have no metadata: a blob without a body is
a file whose JSON is that metadata. Files of `FileStore`, which have both, are read as it writes them. A list
is what `az storage blob list --include m -o json` prints.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import orjson

from ehkafka.checkpoints.formats.json import JsonForm, read_body
from ehkafka.checkpoints.stores.file import FileStore
from ehkafka.checkpoints.stores.store import StoredBlob, StoreMissingError
from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from ehkafka.checkpoints.stores.store import Version

_LIST_BYTES_MAX = 64 * 1024 * 1024


class FolderStore(FileStore):
    """A folder in the place of a container, for one caller at a time; a write makes it."""

    def list_blobs(self, prefix: str) -> Iterator[StoredBlob]:
        """Yield the files; links are not followed out of the folder."""
        if not self._folder.is_dir():
            raise StoreMissingError(f"The folder {self.name} does not exist. Correct the path.")
        yield from super().list_blobs(prefix)

    def read(self, name: str) -> StoredBlob | None:
        """Return a file; its JSON is the metadata where it has no body."""
        found = super().read(name)
        return found if found is None or found.metadata else replace(found, metadata=_flat(found.body))

    def _names(self, prefix: str) -> Iterator[str]:
        return (name for name in super()._names(prefix) if not (self._folder / name).is_symlink())

    def _content(self, metadata: Mapping[str, str], body: bytes) -> bytes:
        return body or orjson.dumps(dict(metadata))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        yield

    def _must_be_there(self) -> None:
        """A folder that is to be made holds nothing yet."""

    def _make_folders(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)


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
        raise ConfigurationError(
            f"{self.name} is a list of blobs, which can only be read: give a folder to write to."
        )

    def close(self) -> None:
        """Nothing is kept open."""

    def _read(self) -> dict[str, StoredBlob]:
        if self._blobs is None:
            self._blobs = {blob.name: blob for blob in _listed(self._path)}
        return self._blobs


def _flat(body: bytes) -> dict[str, str]:
    """Return the metadata that is all of a file."""
    found = read_body(body)
    if found is None or found.form is not JsonForm.METADATA:
        return {}
    return {str(name).lower(): str(value) for name, value in found.fields.items()}


def _listed(path: Path) -> Iterator[StoredBlob]:
    try:
        if path.stat().st_size > _LIST_BYTES_MAX:
            raise ConfigurationError(
                f"{path} is larger than any list of checkpoints: check that it is the right file."
            )
        found: object = orjson.loads(path.read_bytes())
    except OSError as error:
        raise StoreMissingError(f"{path} cannot be read: {error.strerror}. Correct the path.") from None
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, list):
        raise ConfigurationError(
            f"{path} is not a list of blobs. Make one with: az storage blob list --include m -o json"
            " --account-name … --container-name …"
        )
    for entry in found:
        if isinstance(entry, dict) and isinstance(entry.get("name"), str):
            metadata = entry.get("metadata")
            fields = metadata.items() if isinstance(metadata, dict) else ()
            yield StoredBlob(entry["name"], "", {str(name): str(value) for name, value in fields})
