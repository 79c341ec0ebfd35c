"""What the mirror's thread does with the store: looks, writes and says who owns what.

Called by the mirror's thread alone, which asks a store that allows it about several blobs at a time. The
books are shared with the poll thread, so each look into them is made under the lock, and no call of the
store is.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from ehkafka.checkpoints.mirror.body import (
    checkpoint_body,
    checkpoint_metadata,
    ownership_body,
    ownership_metadata,
    read_ownership,
)
from ehkafka.checkpoints.mirror.book import SeenBlob
from ehkafka.checkpoints.mirror.foreign import Foreign, checkpoint_in, foreign_owner
from ehkafka.checkpoints.mirror.side_by_side import side_by_side
from ehkafka.checkpoints.stores.store import StoreConflictError, StoreForbiddenError, calls_at_once
from ehkafka.events.mirror import MirrorContested, MirrorForeign, MirrorWritten

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from ehkafka.checkpoints.checkpoint import Checkpoint
    from ehkafka.checkpoints.layout import Kind, Layout
    from ehkafka.checkpoints.mirror.book import MirrorBook
    from ehkafka.checkpoints.mirror.owners import OwnerBook, OwnerUpdate
    from ehkafka.checkpoints.stores.store import CheckpointStore, StoredBlob, StoreError
    from ehkafka.events import Event
    from ehkafka.records import TopicPartition

FOREIGN = "another program"
# So many owners are written, or as many as checkpoints, before it is looked which checkpoints are due.
OWNERS_MIN: Final = 100
# For so many partitions one listing says which blobs are there, and only those are read.
LIST_FROM: Final = 8


@dataclass(slots=True)
class Lookup:
    """A question what the mirror has of partitions. `found` fills up until it is `done`."""

    partitions: Sequence[TopicPartition]
    # None where there is nothing, `Foreign` where what lies there is not ours.
    found: dict[TopicPartition, Checkpoint | Foreign | None] = field(default_factory=dict)
    error: StoreError | None = None
    # Its answer is of no use any more. Read by the mirror's thread: late is only a read too many.
    is_given_up: bool = False
    done: threading.Event = field(default_factory=threading.Event)


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
        self._at_once = calls_at_once(store)
        self._layout = layout
        self._book = book
        self._owners = owners
        self._lock = lock
        self._emit = emit
        self._clock = clock
        # How often the store has answered. Under the lock.
        self.answers = 0

    def do(self, *, until_s: float | None = None, is_wanted: Callable[[], bool] = lambda: False) -> bool:
        """Do what is due; True if the store was asked at all. Raises what the store raises.

        With `until_s` it is the last time: the interval is waived, and nothing begins after that time. While
        the thread `is_wanted` for something else nothing begins either: the rest is due still.
        """

        def is_over() -> bool:
            return is_wanted() or (until_s is not None and self._clock() >= until_s)

        checked = self._check_all(is_over)
        return self._write_all(is_over, hurry=until_s is not None) or checked

    def answer(self, lookup: Lookup) -> None:
        """Put into a look-up what the store has of its partitions. Raises what the store raises."""
        partitions, found = lookup.partitions, lookup.found
        listed = self._listed(partitions, "checkpoint")
        found.update((partition, None) for partition, blob in listed.items() if blob is None)

        def read(partition: TopicPartition) -> None:
            blob = self._store.read(self._layout.name(*partition))
            found[partition] = self._checkpoint_in(partition, blob)

        unread = [partition for partition in partitions if partition not in found]
        side_by_side(read, unread, self._at_once, lambda: lookup.is_given_up)

    def _checkpoint_in(
        self, partition: TopicPartition, blob: StoredBlob | None
    ) -> Checkpoint | Foreign | None:
        return None if blob is None else checkpoint_in(blob, self._layout.group, partition.topic)

    def _listed(
        self, partitions: Collection[TopicPartition], kind: Kind
    ) -> dict[TopicPartition, StoredBlob | None]:
        """Return the blobs, without bodies, of partitions whose topic has enough of them to be listed."""
        listed: dict[TopicPartition, StoredBlob | None] = {}
        for topic, count in Counter(partition.topic for partition in partitions).items():
            if count < LIST_FROM:
                continue
            try:
                there = {blob.name: blob for blob in self._store.list_blobs(self._layout.prefix(topic, kind))}
            except StoreForbiddenError:
                continue  # a SAS may allow to read and to write alone
            listed |= {p: there.get(self._layout.name(*p, kind)) for p in partitions if p.topic == topic}
        return listed

    def _check_all(self, is_over: Callable[[], bool]) -> bool:
        with self._lock:
            epochs = dict(self._book.to_read(self._clock()))
        if not epochs or is_over():
            return False
        listed = self._listed(epochs, "checkpoint")

        def check(partition: TopicPartition) -> None:
            is_missing = partition in listed and listed[partition] is None
            self._check(partition, epochs[partition], is_missing=is_missing)

        return side_by_side(check, epochs, self._at_once, is_over)

    def _write_all(self, is_over: Callable[[], bool], *, hurry: bool) -> bool:
        """Write what is owed and who owns what in one pass, the checkpoints first."""
        began_s = self._clock()
        with self._lock:
            partitions = self._book.to_write(began_s, hurry=hurry)
            updates = self._owners.due(began_s)[: max(OWNERS_MIN, len(partitions))]
        if not (partitions or updates) or is_over():
            return False
        unseen = [update.partition for update in updates if not update.is_seen]
        owners = self._listed(unseen, "ehkafka/owner")
        written: list[tuple[TopicPartition, int]] = []

        def write(partition: TopicPartition) -> None:
            if (next_offset := self._write(partition)) is not None:
                written.append((partition, next_offset))

        tasks: list[Callable[[], None]] = [partial(write, partition) for partition in partitions]
        tasks += [partial(self._write_owner, update, owners) for update in updates]
        try:
            return side_by_side(lambda task: task(), tasks, self._at_once, is_over)
        finally:
            if written:
                self._emit(MirrorWritten(tuple(sorted(written)), self._clock() - began_s))

    def _check(self, partition: TopicPartition, epoch: int, *, is_missing: bool = False) -> SeenBlob:
        """Read a partition's blob into the book, unless a listing has shown that it `is_missing`."""
        blob = None if is_missing else self._store.read(self._layout.name(*partition))
        there = self._checkpoint_in(partition, blob)
        checkpoint, foreign = (None, there) if isinstance(there, Foreign) else (there, None)
        seen = SeenBlob(blob.version if blob else None, checkpoint, self._clock())
        with self._lock:
            self.answers += 1
            self._book.was_read(partition, epoch, seen, foreign)
        if foreign is not None:
            self._report_foreign(partition, foreign)
        return seen

    def _report_foreign(self, partition: TopicPartition, foreign: Foreign) -> None:
        with self._lock:
            is_news = self._book.is_news(partition, FOREIGN)
        if is_news:
            self._emit(MirrorForeign(partition, f"{self._store.name}/{foreign.blob}", foreign.reason))

    def _write(self, partition: TopicPartition) -> int | None:
        """Write what is owed of a partition; return the next_offset, None if nothing is owed any more.

        A conflict is looked into at once, for it may be with our own last write, whose answer was lost.
        After a second one the rest is left to the next pass.
        """
        for _ in range(2):
            try:
                return self._write_once(partition)
            except StoreConflictError:
                with self._lock:
                    epoch = self._book.was_refused(partition)
            if epoch is None:
                break
            self._report_owner(partition, self._check(partition, epoch))
        return None

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
            self.answers += 1
            self._book.was_written(partition, write, version, self._clock())
        return write.checkpoint.next_offset

    def _report_owner(self, partition: TopicPartition, seen: SeenBlob) -> None:
        there = seen.checkpoint
        if there is None:
            return
        with self._lock:
            if not self._book.is_news(partition, there.owner):
                return
            ours = self._book.owed_offset(partition)
        name = f"{self._store.name}/{self._layout.name(*partition)}"
        self._emit(MirrorContested(partition, name, there.owner, there.next_offset, ours))

    def _write_owner(self, update: OwnerUpdate, owners: Mapping[TopicPartition, StoredBlob | None]) -> None:
        """Say that a partition is ours, or is not any more. `owners` are the blobs as they were listed."""
        name = self._layout.name(*update.partition, "ehkafka/owner")
        expected = update.version
        if not update.is_seen:
            # What is compared stands in the metadata, which a listing has.
            blob = owners[update.partition] if update.partition in owners else self._store.read(name)
            expected = blob.version if blob else None
            if self._is_left_alone(update, blob):
                return
            if update.is_released and not self._is_ours(blob):
                with self._lock:
                    self._owners.superseded(update)
                return
        ownership = self._owners.ownership(update, int(time.time() * 1000))
        with self._lock:
            self._owners.tried(update)
        try:
            version = self._store.write(
                name,
                metadata=ownership_metadata(ownership),
                body=ownership_body(ownership),
                expected=expected,
            )
        except StoreConflictError:
            with self._lock:
                self._owners.contradicted(update, self._clock())
        else:
            with self._lock:
                self._owners.written(update, version, self._clock())

    def _is_left_alone(self, update: OwnerUpdate, blob: StoredBlob | None) -> bool:
        """Tell whether the blob says who owns a partition of another group or topic."""
        foreign = None if blob is None else foreign_owner(blob, self._layout.group, update.partition.topic)
        if foreign is None:
            return False
        self._report_foreign(update.partition, foreign)
        with self._lock:
            self._owners.left_alone(update, self._clock())
        return True

    def _is_ours(self, blob: StoredBlob | None) -> bool:
        ownership = None if blob is None else read_ownership(blob.metadata)
        return ownership is not None and ownership.owner == self._owners.owner
