"""Row 31: stops under a load of twice what the workers can do, and with a backlog that no stop can finish."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer

import ehkafka
from ehkafka.events import AppStopped, RecordsLeft
from tests.kit.checker.history_event import Finished
from tests.kit.events import Events
from tests.kit.fault_runs import SCALE, judge
from tests.kit.unstolen import unstolen_s
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.broker

sys.path.insert(0, str(Path(__file__).parent))
import stop_handlers  # noqa: E402 - found by the line above, in worker processes, too

WORKERS = 8
PROCESSES = 4
BATCH_RECORDS = 4
# Records per second that the workers of each kind can do.
CAPACITY = {
    "threads": WORKERS / stop_handlers.WORK_S,
    "tasks": WORKERS / stop_handlers.WORK_S,
    "batches": 2 * BATCH_RECORDS / stop_handlers.WORK_S,
    "processes": PROCESSES / stop_handlers.WORK_S,
}
PARTITIONS = 4
WORKED_S = 1.5
WORKED_S_IN_A_LONG_RUN = 5.0
STOPS_IN_A_LONG_RUN = 20
# With a backlog that does not fit, a stop takes no longer than its running handlers, the commit and leaving:
# a fraction of a second on a quiet machine. The bound is for a busy one, well below what it may take.
STOP_S = 0.4
LEFT_AT_ONCE_S = 5.0
# A long run is made on a quiet machine, and holds what is promised: two seconds more than the running calls.
LEFT_AT_ONCE_S_IN_A_LONG_RUN = 2.0 + stop_handlers.WORK_S
BACKLOG = 12_000
# With little at hand records end in the order of the log, and no range is needed: but where one key has more
# than a process can do. The first of these has a third of the records.
FEW_KEYS = [b"key-%d" % number for number in range(10)]


KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "threads": (stop_handlers.in_a_thread, {"workers": WORKERS}),
    "tasks": (stop_handlers.in_a_task, {"workers": WORKERS}),
    "batches": (
        stop_handlers.in_a_batch,
        {"workers": 2, "batch_records_max": BATCH_RECORDS, "wait_s_max": 0.02},
    ),
    "processes": (stop_handlers.in_a_thread, {"workers": ehkafka.Processes(PROCESSES)}),
    # With little to do for each record.
    "successor": (lambda _record: None, {}),
}
GROUP = {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 500}


def make_app(stage: Any, kind: str, **settings: Any) -> tuple[ehkafka.App, Events]:
    """Return an app of the stage's group with workers of a kind, not started."""
    handler, options = KINDS[kind]
    app = stage.app(handler, consumer=GROUP, **options, **settings)
    app.add_hook(noted := Events())
    return app, noted


def handled(stage: Any) -> set[tuple[int, int]]:
    """Return partition and offset of each record that has finished so far."""
    events = (event for memory in stage.memories for event in memory.events)
    return {(event.partition.partition, event.offset) for event in events if isinstance(event, Finished)}


def passed_over(stage: Any) -> int:
    """Return how many records are not finished though later ones are, of the partition with most."""
    finished: dict[int, set[int]] = {}
    for partition, offset in handled(stage):
        finished.setdefault(partition, set()).add(offset)
    return max((max(offsets) + 1 - len(offsets) for offsets in finished.values()), default=0)


def repeated_by_a_plain_client(stage: Any) -> set[tuple[int, int]]:
    """Let a plain client take over for a while, without a commit; return what it gets a second time."""
    done = handled(stage)
    client = Consumer(
        {
            "bootstrap.servers": stage.broker.bootstrap,
            "group.id": stage.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "session.timeout.ms": 6_000,
            "log_level": 0,
        }
    )
    client.subscribe([stage.topic])
    got: set[tuple[int, int]] = set()
    ended: set[int] = set()

    def take() -> None:
        for message in client.consume(1_000, 0.2):
            if message.error() is None:
                got.add((message.partition(), message.offset()))
            else:
                ended.add(message.partition())

    try:
        wait_until(lambda: len(ended) >= PARTITIONS, timeout_s=60.0, meanwhile=take)
    finally:
        client.close()
    assert len(ended) == PARTITIONS, "the plain client did not come to the end of the log"
    return got & done


def take_over(stage: Any, load: Any) -> None:
    """Let an ehkafka member finish the rest."""
    successor, _ = make_app(stage, "successor")
    successor.start()
    stage.wait_until_committed(load.ends)
    successor.stop()


@pytest.mark.parametrize("kind", CAPACITY)
def test_row_31_a_stop_under_twice_the_load_repeats_nothing(
    kafka: Any, stage_on: Callable[..., Any], kind: str
) -> None:
    """1 000 keys: exit 0 within stop_s, 0 repeats, also by a plain client that takes over."""
    is_long = SCALE > 1
    for _ in range(STOPS_IN_A_LONG_RUN if is_long else 1):
        stage = stage_on(kafka, PARTITIONS)
        load = stage.load(2 * CAPACITY[kind])
        app, noted = make_app(stage, kind)
        app.start()
        wait_until(lambda app=app: app.snapshot().partitions, "the group")
        load.start()
        time.sleep(WORKED_S_IN_A_LONG_RUN if is_long else WORKED_S)
        began_s = time.monotonic()
        app.stop()
        took_s = time.monotonic() - began_s
        load.stop()
        assert [event.exit_code for event in noted.of(AppStopped)] == [0]
        assert sum(event.repeated_without_metadata for event in noted.of(RecordsLeft)) == 0
        assert repeated_by_a_plain_client(stage) == set()
        take_over(stage, load)
        judge(stage, [took_s])
        assert stage.verdict().duplicates == 0


@pytest.mark.parametrize("kind", CAPACITY)
def test_row_31_a_stop_with_more_than_fits_leaves_it_at_once(
    kafka: Any, stage_on: Callable[..., Any], kind: str
) -> None:
    """A full backlog, stop_s too short: only what runs ends; ranges save the rest, and the line counts."""
    is_long = SCALE > 1
    for _ in range(STOPS_IN_A_LONG_RUN if is_long else 1):
        stage = stage_on(kafka, PARTITIONS)
        load = stage.load(keys=FEW_KEYS)
        load.produce(BACKLOG)
        app, noted = make_app(stage, kind, stop_s=STOP_S)
        app.start()
        if is_long:
            time.sleep(WORKED_S_IN_A_LONG_RUN)
        # More than stop_s is enough for and than may run: some of them are left, and a range is needed.
        beyond = CAPACITY[kind] * STOP_S + 2 * WORKERS
        wait_until(lambda stage=stage, beyond=beyond: passed_over(stage) >= beyond, "a range is needed")
        began_s = unstolen_s()
        app.stop()
        took_s = unstolen_s() - began_s
        assert [event.exit_code for event in noted.of(AppStopped)] == [0]
        (left,) = noted.of(RecordsLeft)
        assert left.never_started_records == app.snapshot().received_records - len(handled(stage))
        assert left.repeated_without_metadata == len(repeated_by_a_plain_client(stage)) > 0
        take_over(stage, load)
        judge(stage, [took_s])
        assert stage.verdict().duplicates == 0
        assert took_s <= (LEFT_AT_ONCE_S_IN_A_LONG_RUN if is_long else LEFT_AT_ONCE_S)
