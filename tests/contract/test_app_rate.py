"""A handler's rate limit, with threads and asyncio."""

from __future__ import annotations

import time
from typing import Any

import pytest

import ehkafka
from ehkafka.events import RecordsLeft
from tests.kit.unstolen import unstolen_s
from tests.kit.waiting import wait_until


@pytest.mark.parametrize(
    ("kind", "order_by"),
    [
        ("threads", ehkafka.by_key),
        ("threads", ehkafka.by_partition),
        ("asyncio", ehkafka.by_key),
        ("asyncio", ehkafka.by_partition),
    ],
)
def test_calls_start_no_faster_than_the_limit_and_hardly_slower(lab: Any, kind: str, order_by: Any) -> None:
    """Within any stretch at most burst + rate × time, in one lane or many; hardly less over all."""
    starts_s: list[float] = []

    def plain(_record: Any) -> None:
        starts_s.append(time.monotonic())

    async def awaited(record: Any) -> None:
        plain(record)

    lab.produce("a b c d e f g h i j " * 6)
    handler = plain if kind == "threads" else awaited
    app = lab.start(handler, workers=8, rate_limit=200.0, order_by=order_by)
    wait_until(lambda: lab.committed() == 60)
    app.stop()
    starts_s.sort()
    for first in range(60):
        for last in range(first, 60):
            # The start is noted after the token was taken; a preempted worker notes it late.
            assert last - first + 1 <= 20 + 200.0 * (starts_s[last] - starts_s[first] + 0.05)
    took_s = starts_s[-1] - starts_s[0]
    # Nobody looks for ready lanes but the poll thread's timer: without it each record would wait for 50 ms.
    assert 0.195 - 0.05 <= took_s < 2.0


def test_a_drain_keeps_to_the_limit_and_ends_in_time(lab: Any, events: Any) -> None:
    """What the limit keeps back past the deadline was never started: left, and said so."""
    recorder = lab.recorder()
    lab.produce("a b c d e f g h i j")
    app = lab.start(recorder, rate_limit=4.0)
    wait_until(lambda: recorder.count >= 1)
    began_s = unstolen_s()
    app.stop(drain="all", timeout_s=0.6)
    assert unstolen_s() - began_s < 2.0
    assert 2 <= recorder.count <= 5
    assert [event.never_started_records for event in events.of(RecordsLeft)] == [10 - recorder.count]
    assert lab.committed() == recorder.count


def test_retries_count_and_other_handlers_do_not(lab: Any) -> None:
    """Each call takes a token; the limit is one handler's own."""
    limited, free = lab.recorder(), lab.recorder()
    limited.fail_at(0)
    lab.produce("a b c d")
    lab.produce("a " * 50, topic="u")
    app = lab.app()
    app.handler("t", rate_limit=10.0, retry=ehkafka.Retry(attempts=3, first_s=0.0), workers=4)(limited)
    app.handler("u", order_by=ehkafka.unordered)(free)
    limited.work, failing = None, limited.work

    def first_twice(record: Any) -> None:
        if record.attempt < 3:
            failing(record)

    limited.work = first_twice
    began_s = time.monotonic()
    app.start()
    wait_until(lambda: free.count == 50)
    wait_until(lambda: limited.count == 4)
    took_s = time.monotonic() - began_s
    app.stop()
    assert len(limited.started) == 6
    assert took_s >= 5 / 10.0 - 0.01


def test_waiting_for_the_limit_is_no_stuck_work(lab: Any, events: Any) -> None:
    """Slowness that was asked for is not reported; the lanes wait for more than `stuck_s`."""
    from ehkafka.events import StuckReport  # noqa: PLC0415 - used here alone

    recorder = lab.recorder()
    lab.produce("a b c")
    app = lab.start(recorder, rate_limit=0.8, stuck_s=0.4)
    wait_until(lambda: recorder.count == 2)
    assert not events.of(StuckReport)
    app.stop(drain=False)
