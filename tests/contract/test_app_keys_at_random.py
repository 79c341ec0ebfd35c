"""Actions at random while records run, fail, wait and move between members: every history is judged."""

from __future__ import annotations

import random
import threading
import time
from typing import Any

import pytest

import ehkafka
from ehkafka.errors import ActionRefusedError
from tests.kit.waiting import wait_until

ACT_S = 3.0
RECORDS = 240


def act_at_random(app: Any, rng: random.Random) -> None:
    """Take one key, partition or handler, and do something to it, or be refused."""
    keys = app.keys
    names = [one.name for one in keys.waiting()] + [f"k{number}" for number in range(6)]
    name = rng.choice(names)
    do = rng.choice(
        [
            lambda: keys.pause(name, for_s=rng.choice([None, 0.2]), keep=rng.random() < 0.3),
            lambda: keys.resume(name),
            lambda: keys.retry(name),
            lambda: keys.skip(name, all=rng.random() < 0.3),
            lambda: keys.dead_letter(name, all=rng.random() < 0.3),
            lambda: keys.pause_partition(f"t4/{rng.randrange(4)}", for_s=0.2),
            lambda: keys.resume_partition(f"t4/{rng.randrange(4)}"),
            lambda: keys.stop_handler(app.snapshot().handlers[0].handler),
            lambda: keys.start_handler(app.snapshot().handlers[0].handler),
        ]
    )
    try:
        do()
    except ActionRefusedError as error:
        assert str(error)  # noqa: PT017 - any refusal will do, in words


def heal(app: Any) -> None:
    """Let all that waits go on."""
    for action in (
        lambda: app.keys.start_handler(app.snapshot().handlers[0].handler),
        *(lambda number=number: app.keys.resume_partition(f"t4/{number}") for number in range(4)),
        *(lambda one=one: app.keys.resume(one.name) for one in app.keys.waiting()),
        *(lambda one=one: app.keys.retry(one.name) for one in app.keys.waiting()),
    ):
        try:
            action()
        except ActionRefusedError:
            continue  # it moved


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "after"),
    [
        ("threads", "continue"),
        ("threads", "divert_key"),
        ("threads", "hold_key"),
        ("asyncio", "hold_key"),
        ("batches", "continue"),
        ("batches", "divert_key"),
        ("shared", "divert_key"),
    ],
)
def test_whatever_is_done_by_hand_no_promise_is_broken(dead: Any, kind: str, after: Any) -> None:
    """In the end all is committed and nothing is parked."""
    rng = random.Random(f"{kind} {after}")
    failing = threading.Event()

    def work(record: Any) -> None:
        if not failing.is_set() and record.offset() % 7 == 3:
            raise ValueError("not yet")

    async def handle(record: Any) -> None:
        work(record)

    options: dict[str, Any] = {
        "retry": ehkafka.Retry(attempts=3, first_s=0.05, max_s=0.3),
        "on_failure": ehkafka.DeadLetter("dead", after=after),
    }
    if kind == "shared":
        options["scope"] = "handler"

    def handle_batch(batch: Any) -> None:
        failed = set()
        for record in batch:
            lane = record.partition(), record.key()
            if lane not in failed:
                try:
                    work(record)
                except ValueError as error:
                    failed.add(lane)
                    batch.fail(record, error)

    def make() -> Any:
        if kind == "batches":
            app = dead.app()
            app.batch_handler("t4", batch_records_max=10, wait_s_max=0.05, **options)(handle_batch)
            return app
        return dead.app(handle if kind == "asyncio" else dead.recorder(work), "t4", **options)

    app = make()
    app.start()
    for partition in range(4):
        dead.produce(
            " ".join(f"k{number % 6}" for number in range(RECORDS // 4)), topic="t4", partition=partition
        )
    ends_s = time.monotonic() + ACT_S
    second = None
    while time.monotonic() < ends_s:
        act_at_random(app, rng)
        if second is None and time.monotonic() > ends_s - ACT_S / 2:
            second = make()
            second.start()
    failing.set()
    assert second is not None
    second.stop()

    def is_all_committed() -> bool:
        heal(app)
        return all(dead.committed(partition, topic="t4") == RECORDS // 4 for partition in range(4))

    wait_until(is_all_committed, timeout_s=40.0)
    wait_until(lambda: app.snapshot().backlog_records == 0)
    assert sum(one.parked_records for one in app.snapshot().partitions) == 0
    assert app.keys.waiting() == []
