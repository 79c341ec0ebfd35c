"""Who has which partition: what owners wrote next to the mirror, what the broker says, and the lag.

Pure, but for the look into the store. An owner's blob tells more than the broker, and of idle partitions,
too; the broker's own word is only a hint.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ehkafka.checkpoints.layout import Layout, place_of
from ehkafka.checkpoints.mirror.body import read_ownership
from ehkafka.checkpoints.mirror.foreign import has_names
from ehkafka.checkpoints.mirror.owners import EVERY_S

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ehkafka.checkpoints.checkpoint import Ownership
    from ehkafka.checkpoints.stores.store import CheckpointStore
    from ehkafka.offsets.members import GroupMember
    from ehkafka.offsets.view import PartitionView

State = Literal["owned", "silent", "gone", "released", "unowned"]
SILENT_S = 90.0
"""An owner writes every 30 s: after three silent times he is gone or cannot write.

A new owner writes at once, over whatever is there: silent stays who died and has no successor."""
LATE_S = EVERY_S + 5.0
"""Who has missed a turn is gone if the broker, too, knows no member; before, his word is the fresher one."""


@dataclass(frozen=True, slots=True)
class OwnerRow:
    """One partition. `ownership` is what its owner wrote last, `member` whom the broker names."""

    view: PartitionView
    ownership: Ownership | None
    member: GroupMember | None
    state: State
    # When the owner wrote last: the store's clock where it has one, else the owner's.
    modified_at_ms: int | None

    @property
    def owner(self) -> str:
        """Who has it; empty: no owner."""
        if self.ownership is not None and not self.ownership.is_released:
            return self.ownership.owner
        return self.member_name

    @property
    def member_name(self) -> str:
        """Whom the broker names; empty: no member."""
        return self.member.name if self.member is not None else ""


def read_owners(
    store: CheckpointStore, namespace: str, group: str, topic: str
) -> dict[int, tuple[Ownership, int]]:
    """Return what owners wrote, by partition, with the time at which they did. Raises `StoreError`."""
    found = {}
    for blob in store.list_blobs(Layout(namespace, group).prefix(topic, "ehkafka/owner")):
        place, ownership = place_of(blob.name), read_ownership(blob.metadata)
        if place is None or ownership is None:
            continue
        # Names that differ in case alone share a blob, which is of one of them.
        if has_names(ownership, group, topic):
            modified_at_ms = ownership.at_ms if blob.modified_at_ms is None else blob.modified_at_ms
            found[place.partition] = ownership, modified_at_ms
    return found


def owner_rows(
    views: Mapping[int, PartitionView],
    owners: Mapping[int, tuple[Ownership, int]],
    members: Sequence[GroupMember] | None,
    now_ms: int,
) -> list[OwnerRow]:
    """Return a row for each partition of the topic, idle ones included; `members` None: not known."""
    by_partition = {number: member for member in members or () for number in member.partitions}
    # Of a group that is settling a rebalance the broker knows members without partitions.
    is_empty = members is not None and not members
    return [
        _row(view, owners.get(number), by_partition.get(number), now_ms, is_empty=is_empty)
        for number, view in sorted(views.items())
    ]


def _row(
    view: PartitionView,
    found: tuple[Ownership, int] | None,
    member: GroupMember | None,
    now_ms: int,
    *,
    is_empty: bool,
) -> OwnerRow:
    if found is None:
        return OwnerRow(view, None, member, "unowned" if member is None else "owned", None)
    ownership, modified_at_ms = found
    if ownership.is_released and member is not None:
        # What was written last is of the one before.
        return OwnerRow(view, ownership, member, "owned", None)
    silent_s = (now_ms - modified_at_ms) / 1000
    state: State = "owned"
    if ownership.is_released:
        state = "released"
    elif is_empty and silent_s > LATE_S:
        state = "gone"
    elif silent_s > SILENT_S:
        state = "silent"
    return OwnerRow(view, ownership, member, state, modified_at_ms)
