"""What the mirror's thread does with the store: looks, writes and says who owns what, one blob at a time.

On the mirror's thread alone. The books are shared with the poll thread, so each look into them is made
under the lock, and no call of the store is.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ehkafka.checkpoints.mirror.body import (
    checkpoint_body,
    checkpoint_metadata,
    ownership_body,
    ownership_metadata,
    read_ownership,
)
from ehkafka.checkpoints.mirror.book import Seen
from ehkafka.checkpoints.mirror.foreign import Foreign, checkpoint_in, foreign_owner
from ehkafka.checkpoints.stores.store import StoreConflictError
from ehkafka.events.mirror import MirrorContested, MirrorForeign, MirrorWritten

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from ehkafka.checkpoints.checkpoint import Checkpoint
    from ehkafka.checkpoints.layout import Layout
    from ehkafka.checkpoints.mirror.book import MirrorBook
    from ehkafka.checkpoints.mirror.owners import Claim, OwnerBook
    from ehkafka.checkpoints.stores.store import CheckpointStore, StoredBlob
    from ehkafka.events import Event
    from ehkafka.records import TopicPartition

FOREIGN = "another program"


class MirrorWork:
    """One store, and the books of what it should hold."""

    def __init__(
        self,
        store: CheckpointStore,
        layout: Layout,
        book: MirrorBook,
        owners: OwnerBook,
        *,
        lock: threading.Condition,
        emit: Callable[[Event], None],
        clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._layout = layout
        self._book = book
        self._owners = owners
        self._lock = lock
        self._emit = emit
        self._clock = clock

    def do(self, *, until_s: float | None = None, is_wanted: Callable[[], bool] = lambda: False) -> bool:
        """Do what is due; True if the store was asked at all. Raises what the store raises.

        With `until_s` it is the last time: the interval is waived, and nothing begins after that time. While
        the thread `is_wanted` for something else nothing begins either: the rest is due still.
        """

        def is_over() -> bool:
            return is_wanted() or (until_s is not None and self._clock() >= until_s)

        checked = self._check_all(is_over)
        written = self._write_all(is_over, hurry=until_s is not None)
        return self._claim_all(is_over) or written or checked

    def read(self, partition: TopicPartition) -> Checkpoint | Foreign | None:
        """Return what the store has of a partition, None if nothing."""
        return self._checkpoint_in(partition, self._store.read(self._layout.name(*partition)))

    def _checkpoint_in(
        self, partition: TopicPartition, blob: StoredBlob | None
    ) -> Checkpoint | Foreign | None:
        return None if blob is None else checkpoint_in(blob, self._layout.group, partition.topic)

    def _check_all(self, is_over: Callable[[], bool]) -> bool:
        with self._lock:
            partitions = self._book.to_read(self._clock())
        for checked, (partition, epoch) in enumerate(partitions):
            if is_over():
                return checked > 0
            self._check(partition, epoch)
        return bool(partitions)

    def _write_all(self, is_over: Callable[[], bool], *, hurry: bool) -> bool:
        began_s = self._clock()
        with self._lock:
            partitions = self._book.to_write(began_s, hurry=hurry)
        written: list[tuple[TopicPartition, int]] = []
        has_asked = False
        try:
            for partition in partitions:
                if is_over():
                    break
                has_asked = True
                if (next_offset := self._write(partition)) is not None:
                    written.append((partition, next_offset))
        finally:
            if written:
                self._emit(MirrorWritten(tuple(written), self._clock() - began_s))
        return has_asked

    def _claim_all(self, is_over: Callable[[], bool]) -> bool:
        with self._lock:
            claims = self._owners.due(self._clock())
        for claimed, claim in enumerate(claims):
            if is_over():
                return claimed > 0
            self._claim(claim)
        return bool(claims)

    def _check(self, partition: TopicPartition, epoch: int) -> Seen:
        """Read a partition's blob into the book."""
        blob = self._store.read(self._layout.name(*partition))
        there = self._checkpoint_in(partition, blob)
        checkpoint = None if isinstance(there, Foreign) else there
        seen = Seen(blob.version if blob else None, checkpoint, self._clock())
        with self._lock:
            self._book.was_read(partition, epoch, seen)
        if isinstance(there, Foreign):
            self._report_foreign(partition, there)
        return seen

    def _report_foreign(self, partition: TopicPartition, foreign: Foreign) -> None:
        with self._lock:
            is_news = self._book.is_news(partition, FOREIGN)
        if is_news:
            self._emit(MirrorForeign(partition, f"{self._store.name}/{foreign.blob}", foreign.reason))

    def _write(self, partition: TopicPartition) -> int | None:
        """Write what is owed of a partition; return the next_offset, None if nothing is owed any more.

        A conflict is looked into at once, for it may be with our own last write, whose answer was lost.
        A second one is left to the next round.
        """
        try:
            return self._write_once(partition)
        except StoreConflictError:
            with self._lock:
                epoch = self._book.was_refused(partition)
        if epoch is None:
            return None
        self._report_owner(partition, self._check(partition, epoch))
        return self._write_once(partition)

    def _write_once(self, partition: TopicPartition) -> int | None:
        with self._lock:
            write = self._book.write(partition, int(time.time() * 1000))
        if write is None:
            return None
        version = self._store.write(
            self._layout.name(*partition),
            metadata=checkpoint_metadata(write.checkpoint),
            body=checkpoint_body(write.checkpoint),
            expected=write.expected,
        )
        with self._lock:
            self._book.was_written(partition, write, version, self._clock())
        return write.checkpoint.next_offset

    def _report_owner(self, partition: TopicPartition, seen: Seen) -> None:
        there = seen.checkpoint
        if there is None:
            return
        with self._lock:
            if not self._book.is_news(partition, there.owner):
                return
            ours = self._book.owed_offset(partition)
        name = f"{self._store.name}/{self._layout.name(*partition)}"
        self._emit(MirrorContested(partition, name, there.owner, there.next_offset, ours))

    def _claim(self, claim: Claim) -> None:
        """Say that a partition is ours, or is not any more."""
        name = self._layout.name(*claim.partition, "ehkafka/owner")
        expected = claim.version
        if not claim.is_seen:
            blob = self._store.read(name)
            expected = blob.version if blob else None
            if self._is_left_alone(claim, blob):
                return
            if claim.is_released and not self._is_ours(blob):
                with self._lock:
                    self._owners.superseded(claim)
                return
        ownership = self._owners.ownership(claim, int(time.time() * 1000))
        with self._lock:
            self._owners.tried(claim)
        try:
            version = self._store.write(
                name,
                metadata=ownership_metadata(ownership),
                body=ownership_body(ownership),
                expected=expected,
            )
        except StoreConflictError:
            with self._lock:
                self._owners.contradicted(claim, self._clock())
        else:
            with self._lock:
                self._owners.written(claim, version, self._clock())

    def _is_left_alone(self, claim: Claim, blob: StoredBlob | None) -> bool:
        """Tell whether the blob says who owns a partition of another group or topic."""
        foreign = None if blob is None else foreign_owner(blob, self._layout.group, claim.partition.topic)
        if foreign is None:
            return False
        self._report_foreign(claim.partition, foreign)
        with self._lock:
            self._owners.left_alone(claim, self._clock())
        return True

    def _is_ours(self, blob: StoredBlob | None) -> bool:
        ownership = None if blob is None else read_ownership(blob.metadata)
        return ownership is not None and ownership.owner == self._owners.owner
