"""What a worker may do in the middle of what the poll thread does under the lock.

The dispatcher reads offsets and lengths of records while it works; the records of the bench let a worker
step in at any one of these reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.kit.lane_bench import LaneBench

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kit.simulated.message import WatchedMessage

READS = range(25)


def _step_in(messages: list[WatchedMessage], read: int, step: Callable[[], object]) -> None:
    """Take a step once, at that read of any of the records."""
    reads = [read]

    def seam() -> None:
        reads[0] -= 1
        if reads[0] == -1:
            step()

    for message in messages:
        message.seam = seam


def _offsets(started: list[str]) -> list[int]:
    return sorted(int(text[1:]) for text in started)


@pytest.mark.parametrize("scope", ["partition", "handler"])
@pytest.mark.parametrize("read", READS)
def test_a_worker_that_goes_on_during_a_drain_leaves_no_hole(read: int, scope: str) -> None:
    """Whenever its handler returns, what started is all there is below the highest started."""
    bench = LaneBench(scope)  # type: ignore[arg-type]
    assignment = bench.assign()
    messages = bench.receive(assignment, "a0 b1 a2 b3 a4 c5")
    lane = bench.begin_key("a")
    assert lane.may_run_head()
    bench.started.append("a0")
    returned = []

    def step() -> None:
        lane.advance()
        returned.append(True)
        bench.run_head(lane)

    _step_in(messages, read, step)
    bench.dispatcher.drain(assignment, below_started=True)
    _step_in(messages, -1, lambda: None)
    if not returned:
        lane.advance()
    bench.settle(lane)
    bench.work()
    started = _offsets(bench.started)
    assert started == list(range(len(started)))
    assert bench.dispatcher.drained(assignment)
    assert assignment.watermark() == len(started)
    assert bench.dispatcher.end(assignment) == 6 - len(started)
    assert bench.is_empty()


@pytest.mark.parametrize("scope", ["partition", "handler"])
@pytest.mark.parametrize("read", READS)
def test_a_worker_that_takes_a_lane_during_the_end_starts_nothing_after_it(read: int, scope: str) -> None:
    """Whatever it manages to take while the epoch ends, its record never counts."""
    bench = LaneBench(scope)  # type: ignore[arg-type]
    assignment, other = bench.assign(0), bench.assign(1)
    messages = bench.receive(assignment, "a0 b1 a2")
    bench.receive(other, "a0 b1")
    taken = []
    _step_in(messages, read, lambda: taken.extend(bench.begin()))
    bench.dispatcher.end(assignment)
    _step_in(messages, -1, lambda: None)
    for lane in taken:
        bench.finish(lane)
    bench.work()
    assert other.watermark() == 2
    assert _offsets(bench.started) == [0, 1]
    assert bench.dispatcher.finished_records == 2
    assert bench.is_empty()


@pytest.mark.parametrize("read", READS)
def test_a_watermark_taken_while_workers_go_on_is_never_too_high(read: int) -> None:
    """It may be behind by what finished meanwhile, not ahead."""
    bench = LaneBench()
    assignment = bench.assign()
    messages = bench.receive(assignment, "a0 b1 a2 b3")
    first, second = bench.begin(2)
    before = []

    def step() -> None:
        before.append(0)
        bench.run_head(first)

    _step_in(messages, read, step)
    watermark = assignment.watermark()
    _step_in(messages, -1, lambda: None)
    assert watermark in {0, 1}
    bench.run_head(second)
    assert first.head is not None
    assert assignment.watermark() == first.head.offset()


def test_the_unfinished_records_are_all_reported_while_a_worker_goes_on() -> None:
    """Whoever saves finished ranges must not take a running record for a finished one."""
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 a1")
    [lane] = bench.begin()
    unfinished = assignment.unfinished()
    reported = [next(unfinished).offset()]
    bench.run_head(lane)
    reported += [message.offset() for message in unfinished]
    assert 1 in reported
