"""Whose offsets wait for outputs: per epoch, how many claims of each offset are not settled.

Pure. An epoch is known by its identity, so that two epochs of one partition are never mixed up. Bounded
by what the book holds; nothing stays of an offset that waits for nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable


class OffsetLedger:
    """Counts claims on offsets. The caller has the book's lock."""

    def __init__(self) -> None:
        self._claims: dict[Hashable, dict[int, int]] = {}

    def claim(self, inputs: Iterable[tuple[Hashable, int]]) -> None:
        """Let these offsets wait, once more each."""
        for epoch, offset in inputs:
            offsets = self._claims.setdefault(epoch, {})
            offsets[offset] = offsets.get(offset, 0) + 1

    def release(self, inputs: Iterable[tuple[Hashable, int]]) -> None:
        """Take back what `claim` did; of an epoch that has ended there is nothing left."""
        for epoch, offset in inputs:
            offsets = self._claims.get(epoch)
            if offsets is None or offset not in offsets:
                continue
            if offsets[offset] > 1:
                offsets[offset] -= 1
                continue
            del offsets[offset]
            if not offsets:
                del self._claims[epoch]

    def waiting(self, epoch: Hashable) -> frozenset[int]:
        """Return the offsets of an epoch that wait."""
        return frozenset(self._claims.get(epoch, ()))

    def has(self, epoch: Hashable) -> bool:
        """Tell whether any offset of an epoch waits."""
        return epoch in self._claims

    def end(self, epoch: Hashable) -> None:
        """Forget an epoch."""
        self._claims.pop(epoch, None)

    def __len__(self) -> int:
        return sum(map(len, self._claims.values()))
