"""Row 15, steered by hand: keys are skipped, retried and paused while handlers never return."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.errors import ActionRefusedError
from tests.kit.fault_runs import SCALE, judge
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RECORDS = 1_000
WORKERS = 4
# How long an action by hand may take, whatever handlers do.
ACT_S = 2.0


@pytest.fixture
def freed() -> Iterator[threading.Event]:
    """Return what lets stuck handlers go, in the end at the latest."""
    found = threading.Event()
    yield found
    found.set()


class Timed:
    """An app's keys; each action must be answered in time."""

    def __init__(self, app: ehkafka.App) -> None:
        self._app = app

    def __getattr__(self, do: str) -> Callable[..., Any]:
        def act(*given: Any, **more: Any) -> Any:
            began_s = time.monotonic()
            try:
                return getattr(self._app.keys, do)(*given, **more)
            finally:
                assert time.monotonic() - began_s <= ACT_S, do

        return act

    def status(self, key: str) -> str:
        """Return what a key waits for; empty where it does not."""
        return next((one.status for one in self._app.keys.waiting() if one.key == key), "")


def paused_one(keys: Timed, known: list[bytes], began: list[bytes]) -> bytes:
    """Pause the first of these keys that was received and does not run, and return it."""
    for key in known:
        if key not in began:
            try:
                assert keys.pause(key.decode()).changed
            except ActionRefusedError as error:
                if error.reason != "unknown":
                    raise
            else:
                return key
    pytest.fail("no key waits for a worker")


def test_row_15_keys_are_steered_while_all_workers_are_stuck(
    embedded_stage: Callable[..., Any], freed: threading.Event
) -> None:
    """No worker is needed: what was held before is skipped, and a queued key is paused and skipped."""
    stage = embedded_stage(8)
    began: list[bytes] = []

    def handle(record: Any) -> None:
        began.append(record.key())
        if record.key() == b"poison":
            raise ValueError("no luck")
        freed.wait()

    load = stage.load()
    load.put(b"poison")
    load.produce(0)
    app = stage.app(handle, workers=WORKERS, on_failure=ehkafka.Hold())
    keys = Timed(app)
    app.start()
    wait_until(lambda: keys.status("poison") == "held", "a held key")
    for number in range(RECORDS * SCALE):
        load.put(b"one-%d" % number)
    load.produce(0)
    wait_until(lambda: len(began) == WORKERS + 1, "stuck workers")
    # Not all: who has enough at hand receives no more.
    wait_until(lambda: app.snapshot().backlog_records > 4 * WORKERS, "records behind them")
    assert keys.skip("poison").changed
    queued = paused_one(keys, [b"one-%d" % number for number in range(RECORDS * SCALE)], began)
    assert keys.skip(queued.decode()).changed
    assert keys.pause_partition(f"{stage.topic}/0").changed
    assert keys.resume_partition(f"{stage.topic}/0").changed
    assert len(began) == WORKERS + 1
    assert app.snapshot().skipped_records == 2
    freed.set()
    stage.wait_until_committed(load.ends)
    app.stop()
    assert queued not in began
    judge(stage)
