"""What group, mirror and other clients' checkpoints say of the same partitions, side by side. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ehkafka.checkpoints.formats import Format, Found

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ehkafka.checkpoints.formats import Unreadable
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
        said = {offset for offset in (self.view.committed, self.mirror, self.other) if offset is not None}
        return len(said) > 1

    @property
    def note(self) -> str:
        """What to make of it, in a few words."""
        group = self.view.committed
        if self.mirror is not None and group is not None and self.mirror > group:
            return "the mirror is ahead of the group: the group was moved back, or lost its commit"
        if self.other is not None and group is not None and self.other != group:
            ahead = self.other > group
            return f"the SDK is {abs(self.other - group)} {'ahead of' if ahead else 'behind'} the group"
        return self.view.trouble


def mirror_of(found: Iterable[Found | Unreadable], topic: str, group: str) -> dict[int, int]:
    """Return what our mirror of this group says, by partition."""
    return {
        one.partition: one.next_offset or 0
        for one in found
        if isinstance(one, Found)
        and one.origin.format is Format.EHKAFKA
        and (one.origin.hub or "").casefold() == topic.casefold()
        and (one.origin.group or "").casefold() == group.casefold()
    }


def compare(
    views: Mapping[int, PartitionView], mirror: Mapping[int, int], others: Mapping[int, Found]
) -> list[Compared]:
    """Return a row for each partition of the topic."""
    return [
        Compared(view, mirror.get(number), others[number].next_offset if number in others else None)
        for number, view in sorted(views.items())
    ]
