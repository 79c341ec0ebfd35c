"""A batch plan on a bench: what it takes, and what a batch's end does to its lanes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ehkafka.lanes.slices import Slices
from ehkafka.records import Outcome
from ehkafka.workers.batches.plan import BatchPlan
from ehkafka.workers.batches.share import BatchLimits, Share
from tests.kit.lane_bench import LaneBench

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ehkafka.workers.batches.share import Part


class PlanBench(LaneBench):
    """A lane bench with a batch plan on it."""

    def __init__(
        self, scope: Any = "partition", *, slices: bool = False, order_by: Any = None, **limits: Any
    ) -> None:
        """With `slices`, batches take chunks until `dispatcher.express.on` is turned off."""
        super().__init__(scope, order_by=order_by)
        limits = {"records_max": 10, "bytes_max": None, "wait_s_max": 1.0, **limits}
        limits.setdefault("records_min", limits["records_max"])
        if slices:
            self.dispatcher.use_slices(self.reader, limits["records_max"]).on = True
        self.plan = BatchPlan(self.dispatcher, BatchLimits(**limits))

    def wait_s(self) -> float | None:
        """How long the next batch waits now."""
        return self.plan.wait_s(self.now_s)

    @property
    def slices(self) -> Slices:
        """The chunks."""
        assert isinstance(self.dispatcher.express, Slices)
        return self.dispatcher.express

    def take(self) -> list[Part]:
        """Take a batch now."""
        return self.plan.take(self.now_s)

    def take_shares(self) -> list[Share]:
        """Take a batch now, which has lanes alone."""
        parts = self.take()
        shares = [part for part in parts if isinstance(part, Share)]
        assert len(shares) == len(parts)
        return shares

    def finish_all(self, parts: list[Part]) -> None:
        """Finish all records of a batch, and hand its lanes and chunks in."""
        shares = [part for part in parts if isinstance(part, Share)]
        for share in shares:
            share.ended_records = len(share.messages)
        self.plan.pass_over(shares)
        self.plan.hand_in(parts, self.now_s)

    def end(
        self, parts: list[Part], ends: Callable[[Any], Outcome | None] = lambda _: Outcome.FINISHED
    ) -> None:
        """End each record as asked, up to the first without outcome in each lane, and hand the lanes in."""
        shares = self.plan.separate(parts)
        for share in shares:
            for message in share.messages:
                end = ends(message)
                if end is None:
                    break
                share.ended_records += 1
                share.skipped_records += end is Outcome.SKIPPED
        self.plan.pass_over(shares)
        self.plan.hand_in(shares, self.now_s)

    def run_all(self) -> list[list[int]]:
        """Take and finish batches until nothing is ready; return their offsets."""
        batches = []
        while shares := self.take():
            batches.append(offsets(shares))
            self.end(shares)
        return batches


def offsets(parts: Sequence[Part]) -> list[int]:
    """The offsets of a batch, as the handler gets them."""
    return [message.offset() for part in parts for message in part.messages]


def many(key: str, first: int, count: int) -> str:
    """Records of one key, as the bench writes them."""
    return " ".join(f"{key}{offset}" for offset in range(first, first + count))
