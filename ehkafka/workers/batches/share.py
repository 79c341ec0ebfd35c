"""What a batch is made of, and how large it may be. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ehkafka.lanes.chunk import Chunk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ehkafka.lanes.decision import Decision
    from ehkafka.lanes.lane import Lane
    from ehkafka.records import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """How large a batch becomes, and how long it waits for that.

    It goes when `records_min` or `bytes_max` (of values) are there, or `wait_s_max` after its first record
    was received. A record above `bytes_max` is a batch by itself.
    """

    records_max: int
    records_min: int
    bytes_max: int | None
    wait_s_max: float


class Share:
    """One lane's part of a batch. Belongs to the worker that took it, until it is handed in."""

    __slots__ = (
        "attempt",
        "decision",
        "ended_records",
        "error",
        "lane",
        "messages",
        "places",
        "skipped_records",
    )

    def __init__(self, lane: Lane, messages: list[Message], places: Sequence[int] = ()) -> None:
        self.lane = lane
        self.messages = messages
        # Where each of them stands in the batch; known once `BatchPlan.separate` was asked.
        self.places = places
        # Which attempt this is for the first record; for the others it is the first.
        self.attempt = lane.attempts + 1
        # How many of the first records have ended, and how many of these were skipped; then what the next
        # one failed with, or what is decided for it already.
        self.ended_records = 0
        self.skipped_records = 0
        self.error: BaseException | None = None
        self.decision: Decision | None = None

    @property
    def is_open(self) -> bool:
        """True when the lane's head, once those that ended are passed, needs a decision."""
        return self.error is not None or self.decision is not None


# A batch has lanes' parts, and chunks as they are.
Part = Share | Chunk
