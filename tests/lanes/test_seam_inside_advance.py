"""The instants inside `Lane.advance` in which another thread may come: around the pop of the next record."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.lane_bench import LaneBench

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.lanes.lane import Lane


class _SeamDeque(deque[Any]):
    """Calls `seam` when `popleft` is called, or when it has its record and gave it to nobody yet."""

    seam: Callable[[], object]
    before: bool

    def popleft(self) -> Any:
        if self.before:
            self.seam()
        record = super().popleft()
        if not self.before:
            self.seam()
        return record


def _advance_with_seam(lane: Lane, seam: Callable[[], object], *, before: bool = False) -> None:
    lane.rest = rest = _SeamDeque(lane.rest or ())
    rest.seam, rest.before = seam, before
    lane.advance()


def test_a_record_on_its_way_to_the_head_is_reported_as_unfinished() -> None:
    """Whoever saves finished ranges at this instant must not take it for a finished one."""
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 a1 a2")
    [lane] = bench.begin()
    reported: list[int] = []
    _advance_with_seam(lane, lambda: reported.extend(message.offset() for message in assignment.unfinished()))
    assert {1, 2} <= set(reported)


def test_a_watermark_taken_at_this_instant_is_not_too_high() -> None:
    """The head stays until the next one is in place."""
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 a1")
    [lane] = bench.begin()
    seen: list[int | None] = []
    _advance_with_seam(lane, lambda: seen.append(assignment.watermark()))
    assert seen[0] in {0, 1}


@pytest.mark.parametrize("records", ["a0 a1", "a0 a1 a2", "a0 b1 a2 a3"])
@pytest.mark.parametrize("below_started", [True, False])
@pytest.mark.parametrize("before", [True, False])
def test_a_drain_at_this_instant_counts_every_record_once(
    records: str, below_started: bool, before: bool
) -> None:
    """The record on its way is returned or runs, and is counted once."""
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, records)
    lane = bench.begin_key("a")
    assert lane.may_run_head()
    _advance_with_seam(
        lane, lambda: bench.dispatcher.drain(assignment, below_started=below_started), before=before
    )
    bench.finish(lane)
    bench.work()
    finished = 1 + len(bench.started)
    assert assignment.finished_records == finished
    assert assignment.returned_records == len(records.split()) - finished
    assert bench.dispatcher.drained(assignment)
    assert bench.dispatcher.end(assignment) == len(records.split()) - finished
    assert bench.is_empty()
