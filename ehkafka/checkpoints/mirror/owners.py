"""Which partitions this run says to own, and when it says so again.

Pure; time comes in as an argument; the caller has a lock around it. A partition is said to be owned when
it is assigned and every 30 s from then on, and to be released when it is not ours any more. A member that
finds another's update writes its own again only with the next turn: a process that slept through the loss of
its partition knows by then. A new owner says it again soon: the one before was just letting go. Released is
only what still says to be ours.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ehkafka.checkpoints.checkpoint import Ownership

if TYPE_CHECKING:
    from ehkafka.checkpoints.stores.store import Version
    from ehkafka.records import TopicPartition

EVERY_S = 30.0
# The last word of the owner before came between a new owner's look and its first word.
CROSSED_S = 1.0


class OwnerUpdate(NamedTuple):
    """Something to say. `is_seen`: the blob's version is known (None: it is not there)."""

    partition: TopicPartition
    epoch: int
    is_released: bool
    is_seen: bool
    version: Version | None


@dataclass(slots=True)
class _Owned:
    epoch: int
    is_released: bool = False
    is_seen: bool = False
    # Whether the store may know of this epoch: a write's answer can get lost.
    is_tried: bool = False
    is_written: bool = False
    version: Version | None = None
    next_s: float = float("-inf")


@dataclass(slots=True)
class OwnerBook:
    """The owned partitions of one run."""

    owner: str
    group: str = ""
    _entries: dict[TopicPartition, _Owned] = field(default_factory=dict)

    def assigned(self, partition: TopicPartition, epoch: int) -> None:
        """Begin to own a partition."""
        self._entries[partition] = _Owned(epoch)

    def ended(self, partition: TopicPartition, epoch: int) -> None:
        """Own it no more."""
        entry = self._entries.get(partition)
        if entry is None or entry.epoch != epoch:
            return
        if not entry.is_tried:
            del self._entries[partition]
        else:
            entry.is_released, entry.next_s = True, float("-inf")

    def due(self, now_s: float) -> list[OwnerUpdate]:
        """Return what is to be said now."""
        return [
            OwnerUpdate(partition, entry.epoch, entry.is_released, entry.is_seen, entry.version)
            for partition, entry in self._entries.items()
            if entry.next_s <= now_s
        ]

    def tried(self, update: OwnerUpdate) -> None:
        """Take that it is being said: from now on the store may know of it."""
        entry = self._current(update)
        if entry is not None:
            entry.is_tried = True

    def written(self, update: OwnerUpdate, version: Version, now_s: float) -> None:
        """Take that it was written."""
        entry = self._current(update)
        if entry is None:
            return
        if update.is_released:
            del self._entries[update.partition]
            return
        entry.is_seen, entry.is_written, entry.version = True, True, version
        if not entry.is_released:
            entry.next_s = now_s + EVERY_S

    def contradicted(self, update: OwnerUpdate, now_s: float) -> None:
        """Note that another member has written meanwhile, or that the answer to our own write was lost."""
        entry = self._current(update)
        if entry is None:
            return
        entry.is_seen, entry.version = False, None
        if not update.is_released:
            entry.next_s = now_s + (EVERY_S if entry.is_written else CROSSED_S)
        elif not update.is_seen:
            # It was read just now: the writer is another member.
            del self._entries[update.partition]

    def superseded(self, update: OwnerUpdate) -> None:
        """Note that the blob to be released is another member's: nothing is left to write."""
        if update.is_released and self._current(update) is not None:
            del self._entries[update.partition]

    def left_alone(self, update: OwnerUpdate, now_s: float) -> None:
        """Take that the blob is of another group or topic: it is looked at again, and written by them."""
        entry = self._current(update)
        if entry is None:
            return
        entry.is_seen, entry.version, entry.next_s = False, None, now_s + EVERY_S
        if update.is_released:
            del self._entries[update.partition]

    def ownership(self, update: OwnerUpdate, at_ms: int) -> Ownership:
        """Return what to write."""
        return Ownership(
            owner=self.owner,
            epoch=update.epoch,
            at_ms=at_ms,
            is_released=update.is_released,
            group=self.group,
            topic=update.partition.topic,
        )

    def next_due_s(self) -> float | None:
        """Return when something is to be said, were nothing to change."""
        return min((entry.next_s for entry in self._entries.values()), default=None)

    def _current(self, update: OwnerUpdate) -> _Owned | None:
        entry = self._entries.get(update.partition)
        return entry if entry is not None and entry.epoch == update.epoch else None
