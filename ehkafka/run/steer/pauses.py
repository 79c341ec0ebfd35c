"""What is paused by hand: until when, and what the next assignment takes over. Pure; the poll thread's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from ehkafka.records import TopicPartition


class Paused(NamedTuple):
    """A key of a partition that is paused, or with `key` None the partition itself.

    A key as wide as its handler has no partition.
    """

    handler: str
    partition: TopicPartition | None
    key: Hashable
    is_key: bool


@dataclass(slots=True)
class Pauses:
    """Never written down: a pause belongs to the process."""

    # When each ends by itself; None where nobody said.
    _until_s: dict[Paused, float | None] = field(default_factory=dict)
    _kept: set[Paused] = field(default_factory=set)

    def add(self, paused: Paused, until_s: float | None, *, keep: bool) -> None:
        """Remember a pause; asked for again, the later wish counts."""
        self._until_s[paused] = until_s
        if keep:
            self._kept.add(paused)
        else:
            self._kept.discard(paused)

    def drop(self, paused: Paused) -> None:
        """Forget a pause that has ended."""
        self._until_s.pop(paused, None)
        self._kept.discard(paused)

    def take_ended(self, now_s: float) -> list[Paused]:
        """Return those whose time is over, and forget them."""
        over = [one for one, until_s in self._until_s.items() if until_s is not None and until_s <= now_s]
        for one in over:
            self.drop(one)
        return over

    def forget_ended(self, owned: set[TopicPartition]) -> None:
        """Forget the pauses of partitions that are gone, but for those to be kept."""
        for one in [one for one in self._until_s if one not in self._kept]:
            if one.partition is not None and one.partition not in owned:
                del self._until_s[one]

    def known(self) -> list[Paused]:
        """Return what is paused."""
        return list(self._until_s)

    def kept(self) -> Iterator[Paused]:
        """Yield what a new assignment takes over."""
        yield from self._kept
