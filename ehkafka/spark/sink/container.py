"""The sink's container: what it needs of the storage SDK beyond a checkpoint store's calls.

One client for a process and a place, because Spark's Python workers run many tasks; opened in the process
that uses it. The SDK's client may be used by several threads. No error holds a secret.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from ehkafka.checkpoints.stores.blob import BlobStore
from ehkafka.checkpoints.stores.blob_errors import error_code, is_missing_blob
from ehkafka.checkpoints.stores.store import StoreConflictError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ehkafka.spark.sink.place import Place

READ_S = 60.0  # a block of many megabytes over a slow line
# What the SDK retries by itself, about eight seconds; after that Spark tries the task again.
RETRIES = 3
CONTENT_TYPES = {
    "jsonl": "application/x-ndjson",
    "jsonl.gz": "application/gzip",
    "parquet": "application/vnd.apache.parquet",
}
LOST_BLOCKS = (
    "{}: the blocks that the tasks have staged are gone. Another driver of this query has committed the blob "
    "meanwhile, or another program has written it. End the other driver or program; Spark replays the batch"
)


def opened(place: Place) -> SinkContainer:
    """Return this process's container of that place. Raises `ConfigurationError` or `StoreError`."""
    container = _container(place)
    # Again after a key was refused, which may have been rotated.
    container._client()  # noqa: SLF001 - here, because what is wrong with the place is no answer of a call
    return container


class SinkContainer(BlobStore):
    """A container that must exist."""

    def __init__(self, place: Place) -> None:
        super().__init__(self._open, "", read_s=READ_S)
        self._place = place
        self._seen = False

    def see(self, name: str) -> None:
        """Ask for a blob, once in a process: a wrong container or key is reported before any task runs."""
        if not self._seen:
            self.read(name)
            self._seen = True

    def stage(self, name: str, block: str, content: bytes) -> None:
        """Send one block of a blob; it is not visible."""
        self._call(name, lambda: self._client().get_blob_client(name).stage_block(block, content))

    def commit(self, name: str, blocks: Sequence[str], ending: str) -> None:
        """Make a blob of staged blocks, in place of what it was."""
        from azure.storage.blob import ContentSettings  # noqa: PLC0415 - loaded with the client, not with us

        settings = ContentSettings(content_type=CONTENT_TYPES[ending])

        def ask() -> None:
            try:
                self._client().get_blob_client(name).commit_block_list([*blocks], content_settings=settings)
            except Exception as error:
                if error_code(error) == "InvalidBlockList":
                    raise StoreConflictError(LOST_BLOCKS.format(f"{self.name}/{name}")) from None
                raise

        self._call(name, ask)

    def create(self, name: str, content: bytes) -> bool:
        """Write a blob that is not there yet; tell whether it was so."""
        try:
            self.write(name, metadata={}, body=content, expected=None)
        except StoreConflictError:
            return False
        return True

    def replace(self, name: str, content: bytes) -> None:
        """Write a blob, over what there is."""
        self._call(name, lambda: self._client().upload_blob(name, content, overwrite=True))

    def delete(self, name: str) -> None:
        """Delete a blob; one that is gone already is fine."""

        def ask() -> None:
            try:
                self._client().delete_blob(name)
            except Exception as error:
                if not is_missing_blob(error):
                    raise

        self._call(name, ask)

    def _open(self, options: dict[str, Any]) -> object:
        from azure.storage.blob import ExponentialRetry  # noqa: PLC0415 - a third of a second

        # The SDK's own default waits 15 s before its first retry.
        retries = ExponentialRetry(
            initial_backoff=1, increment_base=2, retry_total=RETRIES, random_jitter_range=1
        )
        self.name, client = self._place.open_client({**options, "retry_policy": retries})
        return client


# A worker writes to one place or two in its life.
_container = cache(SinkContainer)
