"""The protocol of a checkpoint store: blobs with metadata, written only if they have not changed meanwhile.

Three implementations keep it (`memory`, `file`, `blob`), and one suite of tests, `CheckpointStoreSuite` in
`ehkafka.testing`, holds them to it, and any other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ehkafka.errors import EndpointError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Version = str
"""Stands for one content of one blob; opaque, to be compared and handed back alone."""


@dataclass(frozen=True, slots=True)
class StoredBlob:
    """What a store has under a name.

    - `name` (required): its path in the store, with `/` between the parts.
    - `version` (required): the name of this very content, never used again; the store compares it, ehkafka
      hands it back.
    - `metadata` (default `{}`): names in lower case, values ASCII.
    - `body` (bytes, default `b""`): the content. Listings bring none.
    - `modified_at_ms` (milliseconds since 1970, default `None`): when it was written. None: the store does
      not know.
    """

    name: str
    version: Version
    metadata: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    modified_at_ms: int | None = None


class StoreError(EndpointError):
    """A checkpoint store did not do what it was asked; the kinds below say what may help."""


class StoreConflictError(StoreError):
    """Another program has written the blob since that version was read: read it again, then decide."""


class StoreUnavailableError(StoreError):
    """The store cannot be reached, is throttling, or too slow: the same may succeed later."""


class StoreForbiddenError(StoreError):
    """The store refuses the credential: an operator must grant a right or fix a secret."""


class StoreMissingError(StoreError):
    """The container or the folder itself does not exist: an operator must create it."""


class CheckpointStore(Protocol):
    """Keeps small blobs.

    Called by one thread at a time, unless the class has an attribute `calls_at_once`: then by up to so many.

    A call ends within a bounded time, and raises a `StoreError` and nothing else. It must not be assumed
    that a write which raised `StoreUnavailableError` was not carried out: its answer may be what got lost.
    """

    @property
    def name(self) -> str:
        """Where it is, for people; without a secret."""

    def list_blobs(self, prefix: str) -> Iterator[StoredBlob]:
        """Yield the blobs below a prefix by name, with metadata and version, without bodies.

        - `prefix` (required): how the names begin; it need not end at a `/`.
        """

    def read(self, name: str) -> StoredBlob | None:
        """Return a blob with its body, None when there is none of that name.

        - `name` (required): its path, as `write` was given it.
        """

    def write(
        self, name: str, *, metadata: Mapping[str, str], body: bytes, expected: Version | None
    ) -> Version:
        """Write a blob whole, and return its new version.

        - `name` (required): its path, with `/` between the parts.
        - `metadata` (required): names in lower case, values ASCII. They replace those that it had.
        - `body` (required): the content, some KB at most.
        - `expected` (required): the version that the blob must have still, None: that there is none yet.
          Raise `StoreConflictError` when it is another one.
        """

    def close(self) -> None:
        """Let connections go; a store that was closed may be used again."""


def calls_at_once(store: CheckpointStore) -> int:
    """Return by how many threads at a time a store may be called."""
    found = getattr(store, "calls_at_once", 1)
    return found if isinstance(found, int) else 1
