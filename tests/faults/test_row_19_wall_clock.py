"""Row 19: the machine's clock jumps an hour forth and back, again and again."""

from __future__ import annotations

import itertools
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from ehkafka.recovery.retry import Retry
from tests.kit.fault_runs import SCALE, judge

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

HOUR_S = 3_600.0
RETRY_S = 0.4
RECORDS = 400
PARTITIONS = 4


def test_row_19_jumps_of_the_wall_clock_bring_no_timer_forward(
    embedded_stage: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retries wait as long as they say, commits go on, and no partition is lost."""
    jumps, wall = itertools.cycle((HOUR_S, -HOUR_S, 0.0)), time.time
    # Each look at it is another hour, in all of the process.
    monkeypatch.setattr(time, "time", lambda: wall() + next(jumps))
    stage = embedded_stage(PARTITIONS)
    attempts: dict[tuple[int, int], list[float]] = defaultdict(list)

    def handle(record: Any) -> None:
        place = record.partition(), record.offset()
        attempts[place].append(time.monotonic())
        if record.offset() % 20 == 3 and len(attempts[place]) < 3:
            raise ValueError("not yet")

    load = stage.load()
    load.produce(RECORDS * SCALE)
    app = stage.app(handle, retry=Retry(attempts=5, first_s=RETRY_S, max_s=RETRY_S, jitter=0.0))
    app.start()
    stage.wait_until_committed(load.ends)
    app.stop()
    judge(stage)
    tried = [times for times in attempts.values() if len(times) > 1]
    assert tried
    waited_s = [later - before for times in tried for before, later in itertools.pairwise(times)]
    assert RETRY_S <= min(waited_s) <= max(waited_s) < RETRY_S + 10.0
    assert app.snapshot().counters["PartitionLost"] == 0
