"""The blobs of one partition, written by the local engine so that each record is counted exactly once.

Each blob is named after its first record's offset and says in its metadata which offset was its last; the
next one begins behind it. A name can be written once. So a process that writes a range which another has
written already (after a crash, or because it was paused and its partition has another owner now) is refused
by the store, looks where the chain ends, and passes over what is in it.

One worker at a time uses a chain: a partition's records are in one batch at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from azure.core.exceptions import ResourceExistsError

from home_pipeline import layout

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from azure.storage.blob import ContainerClient

    import ehkafka

NOTHING = -1


class Chain:
    """Appends a partition's records, as rows, to what is there."""

    def __init__(self, container: ContainerClient, topic: str, partition: int) -> None:
        self._container = container
        self._folder = f"local/{topic}/{partition:05d}/"
        self._end: int | None = None

    def append(
        self,
        records: Sequence[ehkafka.Record],
        rows_of: Callable[[Sequence[ehkafka.Record]], list[layout.Row]],
    ) -> None:
        """Write what the chain does not have yet as one blob.

        `records` are in the partition's order. Raises `AzureError`; nothing is lost or doubled by calling
        again.
        """
        while True:
            end = self.end()
            fresh = [record for record in records if record.offset() > end]
            if not fresh:
                return
            first, last = fresh[0].offset(), fresh[-1].offset()
            try:
                self._write(first, last, layout.encode(rows_of(fresh)))
            except ResourceExistsError:
                self._end = None  # another process did, or an earlier try of ours whose answer got lost
                continue
            self._end = last
            return

    def end(self) -> int:
        """Return the last offset in the chain, `NOTHING` when it is empty."""
        if self._end is None:
            blobs = self._container.list_blobs(name_starts_with=self._folder, include=["metadata"])
            self._end = max((int(blob.metadata[layout.LAST_OFFSET]) for blob in blobs), default=NOTHING)
        return self._end

    def _write(self, first: int, last: int, body: bytes) -> None:
        name = f"{self._folder}{first:020d}{layout.SUFFIX}"
        self._container.upload_blob(name, body, metadata={layout.LAST_OFFSET: str(last)}, overwrite=False)
