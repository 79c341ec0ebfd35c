"""A batch plan on a bench: what it takes, and what a batch's end does to its lanes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ehkafka.records import Outcome
from ehkafka.workers.batches.plan import BatchLimits, BatchPlan
from tests.kit.lane_bench import LaneBench

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.workers.batches.plan import Share


class PlanBench(LaneBench):
    """A lane bench with a batch plan on it."""

    def __init__(self, scope: Any = "partition", **limits: Any) -> None:
        super().__init__(scope)
        limits = {"records_max": 10, "bytes_max": None, "wait_s_max": 1.0, **limits}
        limits.setdefault("records_min", limits["records_max"])
        self.plan = BatchPlan(self.dispatcher, BatchLimits(**limits))

    def wait_s(self) -> float | None:
        """How long the next batch waits now."""
        return self.plan.wait_s(self.now_s)

    def take(self) -> list[Share]:
        """Take a batch now."""
        return self.plan.take(self.now_s)

    def end(
        self, shares: list[Share], ends: Callable[[Any], Outcome | None] = lambda _: Outcome.FINISHED
    ) -> None:
        """End each record as asked, up to the first without outcome in each lane, and hand the lanes in."""
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


def offsets(shares: list[Share]) -> list[int]:
    """The offsets of a batch, as the handler gets them."""
    return [message.offset() for share in shares for message in share.messages]


def many(key: str, first: int, count: int) -> str:
    """Records of one key, as the bench writes them."""
    return " ".join(f"{key}{offset}" for offset in range(first, first + count))
