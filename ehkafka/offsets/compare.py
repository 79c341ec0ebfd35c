"""What group, mirror and other clients' checkpoints say of the same partitions, side by side. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ehkafka.checkpoints.formats.formats import Format, FoundBlob
from ehkafka.checkpoints.mirror.foreign import has_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ehkafka.checkpoints.formats.formats import BadBlob
    from ehkafka.offsets.view import PartitionView


@dataclass(frozen=True, slots=True)
class Compared:
    """One partition; None where a place says nothing of it."""

    view: PartitionView
    mirror: int | None
    other: int | None

    @property
    def differs(self) -> bool:
        """Whether those that say something do not say the same."""
        offsets = {offset for offset in (self.view.committed, self.mirror, self.other) if offset is not None}
        return len(offsets) > 1

    @property
    def note(self) -> str:
        """What to make of it, in a few words."""
        group = self.view.committed
        if self.mirror is not None and group is not None and self.mirror > group:
            return "the mirror is ahead of the group: the group was moved back, or lost its commit"
        if self.other is not None and group is not None and self.other != group:
            ahead = self.other > group
            return f"the SDK is {abs(self.other - group)} {'ahead of' if ahead else 'behind'} the group"
        return self.view.problem


def mirror_of(found: Iterable[FoundBlob | BadBlob], namespace: str, topic: str, group: str) -> dict[int, int]:
    """Return what our mirror of this group says, by partition.

    Where there are those of several namespaces, that of this one; a single one may be called anything.
    """
    mirrors: dict[str, dict[int, int]] = {}
    for one in found:
        origin = one.origin
        names = (origin.hub or "").casefold(), (origin.group or "").casefold()
        is_meant = origin.format is Format.EHKAFKA and names == (topic.casefold(), group.casefold())
        if not is_meant or not isinstance(one, FoundBlob) or one.checkpoint is None:
            continue
        # Names that differ in case alone share a blob, which is of one of them.
        if has_names(one.checkpoint, group, topic):
            mirror = mirrors.setdefault((origin.namespace or "").casefold(), {})
            mirror[one.partition] = one.next_offset or 0
    if len(mirrors) == 1:
        return next(iter(mirrors.values()))
    return mirrors.get(namespace.casefold(), {})


def compare(
    views: Mapping[int, PartitionView], mirror: Mapping[int, int], others: Mapping[int, FoundBlob]
) -> list[Compared]:
    """Return a row for each partition of the topic."""
    return [
        Compared(view, mirror.get(number), others[number].next_offset if number in others else None)
        for number, view in sorted(views.items())
    ]
