"""What the snapshot says of records that have ended while their outputs are on their way.

Such a record holds its partition's commit back as one without a result does, so it counts as unfinished.
Reads; the caller has the route's lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Hashable

    from ehkafka.intake.route import Route
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.outputs.delivery import Delivery

SENDING = {"state": "its outputs are not acknowledged", "status": "waiting: broker"}


class WaitingOutputs:
    """The records of one epoch whose outputs wait: how many have ended, and the lowest offset of all."""

    __slots__ = ("_delivery", "_epoch", "_offsets", "ended_records")

    def __init__(
        self, delivery: Delivery | None, epoch: Epoch, offsets: Collection[int], begun: Container[int]
    ) -> None:
        """`offsets` wait; `begun` are those that were with a worker and have no result."""
        self._delivery = delivery
        self._epoch = epoch
        self._offsets = offsets
        # Those without a result are in the backlog already.
        self.ended_records = sum(offset not in begun for offset in offsets)

    def __contains__(self, offset: int) -> bool:
        return offset in self._offsets

    @property
    def lowest(self) -> int | None:
        """The lowest offset that waits; None without one."""
        return min(self._offsets, default=None)

    def bound(self, offset: int) -> int:
        """Return the lowest offset that waits, or `offset` if that is lower."""
        return min(offset, *self._offsets) if self._offsets else offset

    def oldest(self, route: Route, offset: int, now_s: float) -> tuple[dict[str, Any], Hashable]:
        """Return what the picture of the record at an offset that waits is made of, and its key."""
        mark = self._epoch.received.batches.at(offset)
        assert self._delivery is not None
        picture: dict[str, Any] = {
            "offset": offset,
            "age_s": max(0.0, now_s - mark.received_at_s) if mark else 0.0,
            "attempts": 0,
            "handler": route.handler,
            "lane_records": 0,
            **SENDING,
        }
        return picture, self._delivery.outputs.key_of(self._epoch, offset)
