"""Row 17: the dead-letter topic has no leader for a while."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from ehkafka.recovery.policy import DeadLetter
from tests.kit.fault_runs import SCALE, judge
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

RECORDS = 2_000
PARTITIONS = 4
POISON_EVERY = 5
BACKLOG_RECORDS_MAX = 200
BATCH_RECORDS_MAX = 20
# 120 s, scaled by thirty.
AWAY_S = 4.0


def test_row_17_without_its_dead_letter_topic_the_app_waits_and_passes_nothing_over(
    embedded_stage: Callable[..., Any],
) -> None:
    """Letters on their way fill the backlog, intake pauses; afterwards each letter is written once."""
    stage = embedded_stage(PARTITIONS, "dead")

    def handle(record: Any) -> None:
        if record.offset() % POISON_EVERY == 0:
            raise ValueError("poison")

    load = stage.load()
    load.produce(RECORDS * SCALE)
    stage.broker.move_leader("dead", 0, None)
    app = stage.app(
        handle,
        on_failure=DeadLetter("dead"),
        backlog_records_max=BACKLOG_RECORDS_MAX,
        consume_records_max=BATCH_RECORDS_MAX,
    )
    app.start()
    wait_until(lambda: app.snapshot().counters["PartitionPaused"] >= PARTITIONS, "back-pressure")
    # However much the others hold: none is left without a record.
    wait_until(
        lambda: all(one.received_records for one in app.snapshot().partitions), "each partition's turn"
    )
    ends_s = time.monotonic() + AWAY_S * SCALE
    while time.monotonic() < ends_s:
        now = app.snapshot()
        assert now.backlog_records <= BACKLOG_RECORDS_MAX
        # The two are read one after the other.
        unfinished = now.received_records - now.finished_records
        assert unfinished <= BACKLOG_RECORDS_MAX + BATCH_RECORDS_MAX
        assert now.dead_lettered_records == 0
        # Offset 0 of each partition is poison, and its letter is not safe.
        assert {partition.watermark for partition in now.partitions} == {0}
        time.sleep(0.05)
    assert now.received_records < RECORDS * SCALE
    stage.broker.move_leader("dead", 0, 1)
    healed_s = time.monotonic()
    stage.wait_until_committed(load.ends, timeout_s=60.0)
    recovery_s = time.monotonic() - healed_s
    app.stop()
    poison = [(p, o) for p, end in load.ends.items() for o in range(0, end, POISON_EVERY)]
    written = Counter((partition, offset) for partition, offset, _ in stage.letters("dead"))
    assert written == Counter(poison)
    judge(stage, [recovery_s])
