"""The blobs of one partition, written by the local engine so that each record is counted exactly once.

Each blob is named after its first record's offset and says in its metadata which offset was its last; the
next one begins behind it. A name can be written once. So a process that writes a range which another has
written already (after a crash, or because it was paused and its partition has another owner now) is refused
by the store, looks where the chain ends, and passes over what is in it. Records between the chain's end and
the first one to write were in blobs that the store has forgotten: they are read and written again.

One worker at a time uses a chain: a partition's records are in one batch at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from azure.core.exceptions import ResourceExistsError
from confluent_kafka import Consumer, TopicPartition

import ehkafka
from home_pipeline import layout

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from azure.storage.blob import ContainerClient

NOTHING = -1
READ_S = 10.0
RETRY_S = 2.0
FORGOTTEN_MAX = 50_000
"""A store that was killed has forgotten some seconds; where more is missing, the container is another one."""


class Chain:
    """Appends a partition's records, as rows, to what is there."""

    def __init__(
        self, container: ContainerClient, endpoint: ehkafka.Endpoint, of: ehkafka.TopicPartition
    ) -> None:
        self._container = container
        self._endpoint = endpoint
        self._of = of
        self._folder = f"local/{of.topic}/{of.partition:05d}/"
        self._end: int | None = None

    def append(self, records: Sequence[Any], rows_of: Callable[[Sequence[Any]], list[layout.Row]]) -> None:
        """Write what the chain does not have yet as one blob.

        `records` are in the partition's order. Raises `AzureError`; nothing is lost or doubled by calling
        again.
        """
        while True:
            end = self.end()
            fresh = [record for record in records if record.offset() > end]
            if not fresh:
                return
            if 0 < fresh[0].offset() - end - 1 <= FORGOTTEN_MAX:
                fresh = [*self._forgotten(end + 1, fresh[0].offset()), *fresh]
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

    def _forgotten(self, begin: int, end: int) -> list[Any]:
        """Return the records before `end`, which is there, from `begin` on; the group has committed them."""
        own = {"group.id": "home-security-gap", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        reader = Consumer(self._endpoint.client_properties() | own)
        found: list[Any] = []
        try:
            reader.assign([TopicPartition(self._of.topic, self._of.partition, begin)])
            while not found or found[-1].offset() < end:
                few = [one for one in reader.consume(1_000, READ_S) if one.error() is None]
                if not few:
                    raise ehkafka.RetryLater(after_s=RETRY_S)
                found += few
        finally:
            reader.close()
        return [one for one in found if one.offset() < end]

    def _write(self, first: int, last: int, body: bytes) -> None:
        name = f"{self._folder}{first:020d}{layout.SUFFIX}"
        self._container.upload_blob(name, body, metadata={layout.LAST_OFFSET: str(last)}, overwrite=False)
