"""A checkpoint store in a container of Azure Blob Storage: versions are ETags, metadata are the service's.

The SDK is imported with the first call: it takes a third of a second. Its own retries are off, because
with them a dead server costs 79 s; who calls decides when to try again. Several threads may call it.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ehkafka.checkpoints.mirror.body import BODY_BYTES_MAX
from ehkafka.checkpoints.stores.blob_errors import explained, is_missing_blob
from ehkafka.checkpoints.stores.store import StoredBlob, StoreError, StoreForbiddenError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ehkafka.checkpoints.stores.store import Version

T = TypeVar("T")

CONNECT_S = 5.0
READ_S = 10.0
# The SDK tells each request at INFO. This logger is ours to keep quiet; set its level to hear them.
_LOGGER = logging.getLogger("ehkafka.storage")


class BlobStore:
    """Keeps blobs in one container, which must be there.

    `open_client(options)` returns the SDK's `ContainerClient`, again after the service refused a key: it may
    have been rotated. `name` is shown to people, `on_close` called after the client was closed.
    """

    # The SDK keeps so many connections open; for more it would open one for each call.
    calls_at_once: Final = 10

    def __init__(
        self,
        open_client: Callable[[dict[str, Any]], Any],
        name: str,
        *,
        connect_s: float = CONNECT_S,
        read_s: float = READ_S,
        on_close: Callable[[], object] = lambda: None,
    ) -> None:
        self.name = name
        self._on_close = on_close
        self._open_client = open_client
        # Written under the lock.
        self._opened: Any = None
        self._lock = threading.Lock()
        self._options = {
            "retry_total": 0,
            "connection_timeout": connect_s,
            "read_timeout": read_s,
            "max_single_get_size": BODY_BYTES_MAX,
            "logger": _LOGGER,
        }
        if _LOGGER.level == logging.NOTSET:
            _LOGGER.setLevel(logging.WARNING)

    def __repr__(self) -> str:
        return f"<BlobStore {self.name}>"

    def list_blobs(self, prefix: str) -> Iterator[StoredBlob]:
        """Yield the blobs below a prefix by name, without bodies."""
        pages: Any = None

        def ask() -> list[StoredBlob] | None:
            nonlocal pages
            if pages is None:
                pages = self._client().list_blobs(name_starts_with=prefix, include=["metadata"]).by_page()
            page = next(pages, None)
            return None if page is None else [_stored(blob, blob.name, b"") for blob in page]

        # Page by page: a container may hold millions, and who reads them has enough of them before.
        while (found := self._call(prefix, ask)) is not None:
            yield from found

    def read(self, name: str) -> StoredBlob | None:
        """Return a blob, None when there is none of that name; a body beyond all bounds comes empty."""

        def ask() -> StoredBlob | None:
            try:
                stream = self._client().download_blob(name)
                body = stream.readall() if stream.size <= BODY_BYTES_MAX else b""
            except Exception as error:
                if is_missing_blob(error):
                    return None
                raise
            return _stored(stream.properties, name, body)

        return self._call(name, ask)

    def write(
        self, name: str, *, metadata: Mapping[str, str], body: bytes, expected: Version | None
    ) -> Version:
        """Write a blob if it still has the `expected` ETag. Raises `StoreConflictError`."""

        def ask() -> Version:
            # Never both: the SDK would ask for a blob that is missing and has this ETag.
            condition = {"overwrite": False} if expected is None else _only_if(expected)
            client = self._client().get_blob_client(name)
            answer = client.upload_blob(body, metadata=dict(metadata), **condition)
            return _version(answer["etag"])

        return self._call(name, ask)

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        with self._lock:
            client, self._opened = self._opened, None
        if client is not None:
            # Closing a connection that is gone already is no news.
            with contextlib.suppress(Exception):
                client.close()
            self._on_close()

    def _client(self) -> Any:
        with self._lock:
            if self._opened is None:
                self._opened = self._open_client(self._options)
            return self._opened

    def _call(self, name: str, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except StoreError:  # of the opening
            raise
        except Exception as error:
            found = explained(error, f"{self.name}/{name}")
        if isinstance(found, StoreForbiddenError):
            self.close()
        # Outside of the handler: the SDK's error may hold a SAS, so it is neither cause nor context.
        raise found


def _only_if(expected: Version) -> dict[str, Any]:
    from azure.core import MatchConditions  # noqa: PLC0415 - loaded with the SDK, not with us

    return {"overwrite": True, "etag": f'"{expected}"', "match_condition": MatchConditions.IfNotModified}


def _stored(found: Any, name: str, body: bytes) -> StoredBlob:
    modified = found.last_modified
    modified_at_ms = None if modified is None else int(modified.timestamp() * 1000)
    # A listing gives an empty value as None.
    metadata = {str(key).lower(): str(value or "") for key, value in (found.metadata or {}).items()}
    return StoredBlob(name, _version(found.etag), metadata, body, modified_at_ms)


def _version(etag: str) -> Version:
    # Listings give it without the quotes that answers have.
    return etag.strip('"')
