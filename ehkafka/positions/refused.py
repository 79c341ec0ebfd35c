"""Last positions that the broker refused to store when the group took their partitions away.

Pure; called by the poll thread. A broker refuses commits while the group forms its next generation: Kafka in
part of that time, the embedded broker in all of it. Nothing is lost by that, but the next epoch would handle
again what was finished since the group's commit. If the partition comes back to this process, its epoch
begins at the refused position instead and commits that. The group must still have the commit that the
position was to replace: then no other owner has committed meanwhile, and no operator has moved the group.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ehkafka.positions.finder import Begin
    from ehkafka.progress.ledger import Position
    from ehkafka.records import TopicPartition


class _Refused(NamedTuple):
    """A refused position, and the group's next_offset that it was to replace: None if there was none."""

    position: Position
    committed: int | None

    def may_follow(self, begin: Begin) -> bool:
        """Tell whether the group still has the commit that the position was to replace."""
        if begin.is_mirrored or begin.disproved is not None:
            return False
        return self.committed == (None if begin.committed is None else begin.committed.offset)

    def is_stored(self, begin: Begin) -> bool:
        """Tell whether the group is as far: a commit without an answer may have been stored all the same."""
        return begin.committed is not None and begin.committed.offset >= self.position.next_offset


class RefusedPositions:
    """Those of one member, kept until the group has given out its partitions again."""

    def __init__(self) -> None:
        self._kept: dict[TopicPartition, _Refused] = {}
        # Partitions whose next owner handles again what was finished. A stop clears it before it drains.
        self.given_up: set[TopicPartition] = set()
        # Why the last ones were not stored, where that is known.
        self.why: str | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether a partition may still come back."""
        return bool(self._kept)

    def unsaved(self) -> set[TopicPartition]:
        """Return the partitions whose last positions are not committed."""
        return self.given_up | self._kept.keys()

    def keep(
        self,
        positions: Mapping[TopicPartition, Position],
        committed: Mapping[TopicPartition, Position | None],
        *,
        why: str | None,
    ) -> None:
        """Take the refused positions of a revoke, and what the group has for their partitions."""
        for partition, position in positions.items():
            before = committed[partition]
            self._kept[partition] = _Refused(position, None if before is None else before.next_offset)
            self.why = why

    def give_up(self, partitions: Iterable[TopicPartition], *, why: str | None) -> None:
        """Note partitions whose last positions no later commit may have."""
        for partition in partitions:
            self.given_up.add(partition)
            self.why = why

    def assigned(self, partitions: Iterable[TopicPartition]) -> None:
        """Keep only partitions of the next assignment: another member has the others."""
        gone = self._kept.keys() - set(partitions)
        self._kept = {partition: one for partition, one in self._kept.items() if partition not in gone}
        self.given_up |= gone

    def resumed(self, begins: Iterable[Begin]) -> list[Begin]:
        """Return where epochs begin, at the refused positions of the partitions that came back."""
        return [self._resumed(begin) for begin in begins]

    def _resumed(self, begin: Begin) -> Begin:
        kept = self._kept.pop(begin.partition, None)
        if kept is None or kept.is_stored(begin):
            return begin
        if not kept.may_follow(begin):
            self.given_up.add(begin.partition)
            return begin
        position = kept.position
        return replace(
            begin,
            offset=position.next_offset,
            facts=position.facts,
            refused=position,
            is_new=False,
            is_empty=False,
        )
