"""Races between a chunk's worker and who ends the chunk early; mutants that show each guard is needed.

No broker: the test plays the poll thread. Threads are switched as often as the interpreter can.
"""

from __future__ import annotations

import random
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


LIMIT_S = 20.0
STEALS = 100_000


@pytest.fixture(autouse=True)
def switch_often() -> Iterator[None]:
    """Switch threads as often as the interpreter can."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before_s)


def steals(pool: Any, wanted: int, *, for_s: float, fails: float = 0.0) -> str | None:
    """End short chunks early while they run, so often or so long; return what went wrong, None if nothing."""
    rng = random.Random(11)
    keys = [b"k%d" % n for n in range(30)]
    assignment = pool.assign()
    offset = ended = 0
    seen, quiet_s, ends_s = -1, time.monotonic(), time.monotonic() + for_s
    exchange, express = pool.exchange, pool.dispatcher.express
    while (feeds := ended < wanted and time.monotonic() < ends_s) or pool.handled < offset:
        if feeds and offset - pool.handled < 300:
            batch = [rng.choice(keys) for _ in range(rng.randrange(1, 12))]
            pool.receive(assignment, offset, batch)
            offset += len(batch)
        exchange.watch()
        for _ in range(20):
            chunk = express.out
            if chunk is not None and chunk.started():
                exchange.end_early(chunk)
                exchange.wake_one()
                ended += 1
        if pool.dispatcher.holds.held:
            with exchange.locked() as dispatcher:
                dispatcher.holds.unpark_due(1.0)
        with exchange.locked():
            watermark = assignment.watermark() or 0
            missing = set(range(max(0, watermark - 400), watermark)) - pool.done[1]
        if missing:
            return f"watermark {watermark} passes the unfinished {sorted(missing)[:5]}"
        if pool.wrong:
            return str(pool.wrong[0])
        if pool.handled != seen:
            seen, quiet_s = pool.handled, time.monotonic()
        elif time.monotonic() - quiet_s > 2.0:
            return f"{offset - pool.handled} of {offset} records were never handled"
    deadline_s = time.monotonic() + LIMIT_S
    while pool.dispatcher.backlog_records and time.monotonic() < deadline_s:
        exchange.watch()
    with exchange.locked():
        if assignment.lanes or assignment.chunks or assignment.watermark() != offset:
            return f"{len(assignment.lanes)} lanes are left, watermark {assignment.watermark()} of {offset}"
        if (assignment.backlog_records, assignment.finished_records) != (0, offset):
            return f"counted {assignment.finished_records} of {offset}"
    assert ended > wanted // 100
    return None


def test_ending_chunks_early_loses_and_overlaps_nothing(pool: Callable[..., Any]) -> None:
    """O1: 100 000 steals against the worker's own end of its record: every record once, in order."""
    assert steals(pool(4, express=True), STEALS, for_s=8.0) is None
