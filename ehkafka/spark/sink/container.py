"""The sink's container: the few calls of the storage SDK that it needs, with errors that hold no secret.

One client for a process and a place, because Spark's Python workers run many tasks; opened on first use, in
the process that uses it. The SDK's client may be used by several threads.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from ehkafka.checkpoints.stores.blob_errors import error_code, explained, is_missing_blob
from ehkafka.checkpoints.stores.store import StoreConflictError, StoreError, StoreForbiddenError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ehkafka.spark.sink.place import Place

T = TypeVar("T")

CONNECT_S = 5.0
READ_S = 60.0  # a block of many megabytes over a slow line
# What the SDK retries by itself, about eight seconds; after that Spark tries the task again.
RETRIES = 3
CONTENT_TYPES = {
    "jsonl": "application/x-ndjson",
    "jsonl.gz": "application/gzip",
    "parquet": "application/vnd.apache.parquet",
}
# The SDK tells each request at INFO. This logger is ours to keep quiet; set its level to hear them.
_LOGGER = logging.getLogger("ehkafka.storage")

_lock = threading.Lock()
# Under the lock. A worker writes to one place or two in its life.
_containers: dict[Place, SinkContainer] = {}


def opened(place: Place) -> SinkContainer:
    """Return this process's container of that place. Raises `ConfigurationError` or `StoreError`."""
    with _lock:
        if place not in _containers:
            _containers[place] = SinkContainer(place)
        return _containers[place]


class SinkContainer:
    """A container that must exist; `name` is shown to people."""

    def __init__(self, place: Place) -> None:
        if _LOGGER.level == logging.NOTSET:
            _LOGGER.setLevel(logging.WARNING)
        self._place = place
        self._seen = False
        self.name, self._client = place.open_client(_options())

    def see(self, name: str) -> None:
        """Ask for a blob, once in a process: a wrong container or key is reported before any task runs."""
        if not self._seen:
            self.read(name)
            self._seen = True

    def stage(self, name: str, block: str, content: bytes) -> None:
        """Send one block of a blob; nobody sees it."""
        self._call(name, lambda: self._client.get_blob_client(name).stage_block(block, content))

    def commit(self, name: str, blocks: Sequence[str], ending: str) -> None:
        """Make a blob of staged blocks, in place of what it was."""

        def ask() -> None:
            from azure.storage.blob import ContentSettings  # noqa: PLC0415 - loaded with the client, not with us

            settings = ContentSettings(content_type=CONTENT_TYPES[ending])
            try:
                self._client.get_blob_client(name).commit_block_list([*blocks], content_settings=settings)
            except Exception as error:
                if error_code(error) == "InvalidBlockList":
                    raise _lost_blocks(f"{self.name}/{name}") from None
                raise

        self._call(name, ask)

    def names(self, prefix: str) -> Iterator[str]:
        """Yield the names of the blobs that begin with a prefix."""
        yield from self._call(prefix, lambda: list(self._client.list_blob_names(name_starts_with=prefix)))

    def read(self, name: str) -> bytes | None:
        """Return a blob's content, None when there is none."""

        def ask() -> bytes | None:
            try:
                content: bytes = self._client.download_blob(name).readall()
            except Exception as error:
                if is_missing_blob(error):
                    return None
                raise
            return content

        return self._call(name, ask)

    def create(self, name: str, content: bytes) -> bool:
        """Write a blob that is not there yet; tell whether it was so."""
        try:
            self._call(name, lambda: self._client.upload_blob(name, content, overwrite=False))
        except StoreConflictError:
            return False
        return True

    def write(self, name: str, content: bytes) -> None:
        """Write a blob, over what there is."""
        self._call(name, lambda: self._client.upload_blob(name, content, overwrite=True))

    def delete(self, name: str) -> None:
        """Delete a blob; one that is gone already is fine."""

        def ask() -> None:
            try:
                self._client.delete_blob(name)
            except Exception as error:
                if not is_missing_blob(error):
                    raise

        self._call(name, ask)

    def _call(self, name: str, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except StoreError:
            raise
        except Exception as error:
            found = explained(error, f"{self.name}/{name}")
        if isinstance(found, StoreForbiddenError):
            self._forget()
        # Outside of the handler: the SDK's error may hold a SAS, so it is neither cause nor context.
        raise found

    def _forget(self) -> None:
        """Let the next task read the key again: it may have been rotated."""
        with _lock:
            if _containers.get(self._place) is self:
                del _containers[self._place]


def _options() -> dict[str, Any]:
    from azure.storage.blob import ExponentialRetry  # noqa: PLC0415 - a third of a second

    # The SDK's own default waits 15 s before its first retry.
    retries = ExponentialRetry(
        initial_backoff=1, increment_base=2, retry_total=RETRIES, random_jitter_range=1
    )
    return {
        "retry_policy": retries,
        "connection_timeout": CONNECT_S,
        "read_timeout": READ_S,
        "logger": _LOGGER,
    }


def _lost_blocks(where: str) -> StoreConflictError:
    return StoreConflictError(
        f"{where}: the blocks that the tasks have staged are gone. Another driver of this query has "
        "committed the blob meanwhile, or somebody else has written it. End the other one; "
        "Spark replays the batch"
    )
