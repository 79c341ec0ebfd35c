"""Who has which partition: what owners wrote beside the mirror, what the broker says, and what is left to do.

Pure, but for the look into the store. An owner's blob tells more than the broker, and of idle partitions,
too; the broker's own word is only a hint.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ehkafka.checkpoints.body import read_ownership
from ehkafka.checkpoints.layout import Layout, place_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ehkafka.checkpoints.checkpoint import Ownership
    from ehkafka.checkpoints.store import CheckpointStore
    from ehkafka.offsets.members import Member
    from ehkafka.offsets.view import PartitionView

State = Literal["held", "silent", "released", "nobody"]
SILENT_S = 90.0
"""An owner writes every 30 s: after three times that nobody hears of him, he is gone or cannot write."""


@dataclass(frozen=True, slots=True)
class OwnerRow:
    """One partition. `ownership` is what its owner wrote last, `member` whom the broker names."""

    view: PartitionView
    ownership: Ownership | None
    member: Member | None
    state: State
    # When the owner wrote last: the store's clock where it has one, else the owner's.
    modified_at_ms: int | None

    @property
    def owner(self) -> str:
        """Who has it, empty for nobody."""
        if self.ownership is not None and self.state != "released":
            return self.ownership.owner
        return f"{self.member.client} ({self.member.host})" if self.member is not None else ""


def read_owners(
    store: CheckpointStore, namespace: str, group: str, topic: str
) -> dict[int, tuple[Ownership, int]]:
    """Return what owners wrote, by partition, with the time at which they did. Raises `StoreError`."""
    found = {}
    for blob in store.list_blobs(Layout(namespace, group).prefix(topic, "ehkafka/owner")):
        place, ownership = place_of(blob.name), read_ownership(blob.metadata)
        if place is not None and ownership is not None:
            modified_at_ms = ownership.at_ms if blob.modified_at_ms is None else blob.modified_at_ms
            found[place.partition] = ownership, modified_at_ms
    return found


def owner_rows(
    views: Mapping[int, PartitionView],
    owners: Mapping[int, tuple[Ownership, int]],
    members: Iterable[Member],
    now_ms: int,
) -> list[OwnerRow]:
    """Return a row for each partition of the topic, idle ones included."""
    by_partition = {number: member for member in members for number in member.partitions}
    return [
        _row(view, owners.get(number), by_partition.get(number), now_ms)
        for number, view in sorted(views.items())
    ]


def _row(
    view: PartitionView, found: tuple[Ownership, int] | None, member: Member | None, now_ms: int
) -> OwnerRow:
    if found is None:
        return OwnerRow(view, None, member, "nobody" if member is None else "held", None)
    ownership, modified_at_ms = found
    state: State = "held"
    if ownership.is_released:
        state = "released" if member is None else "held"
    elif now_ms - modified_at_ms > SILENT_S * 1000:
        state = "silent"
    return OwnerRow(view, ownership, member, state, modified_at_ms)
