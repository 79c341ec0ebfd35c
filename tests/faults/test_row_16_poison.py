"""Row 16: one record in a hundred fails for good, then every one."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.recovery.policy import DeadLetter
from ehkafka.recovery.retry import Retry
from tests.kit.fault_runs import SCALE, judge
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

RECORDS = 2_000
# One record in so many is poison.
POISON_EVERY = 100
RUN_MAX = 20
WORKERS = 16


def test_row_16_calm_poison_costs_one_letter_each_and_a_flood_stops_the_app(
    embedded_stage: Callable[..., Any],
) -> None:
    """In calm exactly the poison is dead-lettered, once; when all fails the limit stops the app.

    The fixed app then handles what the flood left, and no record is passed over.
    """
    stage = embedded_stage(8, "dead")
    broken = threading.Event()

    def handle(record: Any) -> None:
        if broken.is_set() or record.offset() % POISON_EVERY == POISON_EVERY - 1:
            raise ValueError("poison")

    options: dict[str, Any] = {
        "workers": WORKERS,
        "retry": Retry(attempts=2, first_s=0.02),
        "on_failure": DeadLetter("dead", run_max=RUN_MAX),
    }
    load = stage.load()
    load.produce(RECORDS * SCALE)
    app = stage.app(handle, **options)
    app.start()
    stage.wait_until_committed(load.ends)
    poison = {
        (partition, offset)
        for partition, end in load.ends.items()
        for offset in range(POISON_EVERY - 1, end, POISON_EVERY)
    }
    calm = stage.letters("dead")
    assert sorted((partition, offset) for partition, offset, _ in calm) == sorted(poison)

    broken.set()
    load.produce(RECORDS * SCALE // 4)
    wait_until(lambda: app.state == "stopped", "the end of the app")
    with pytest.raises(ehkafka.errors.HandlerFailedError, match="in a row failed permanently"):
        app.stop()
    flood = stage.letters("dead")[len(calm) :]
    assert len(flood) <= RUN_MAX

    broken.clear()
    fixed = stage.app(handle, **options)
    fixed.start()
    stage.wait_until_committed(load.ends)
    fixed.stop()
    judge(stage)
