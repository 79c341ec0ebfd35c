"""Row 15, steered by hand: keys are skipped, retried and paused while handlers never return."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.errors import ActionRefusedError

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


def test_row_15_other_keys_are_steered_while_one_handler_is_stuck(
    embedded_stage: Callable[..., Any],
    eventually: Callable[..., None],
    judged: Callable[..., None],
    scale: int,
    freed: threading.Event,
) -> None:
    """The stuck one is named and refused with its age; a poison key is skipped, another one retried."""
    stage = embedded_stage(8)
    is_repaired = threading.Event()

    def handle(record: Any) -> None:
        key = record.key()
        if key == b"stuck":
            freed.wait()
        if key == b"poison" or (key == b"broken" and not is_repaired.is_set()):
            raise ValueError("no luck")

    load = stage.load()
    for key in (b"stuck", b"poison", b"broken"):
        load.put(key)
    load.produce(RECORDS * scale)
    app = stage.app(handle, workers=WORKERS, on_failure=ehkafka.Hold())
    keys = Timed(app)
    app.start()
    eventually(lambda: keys.status("poison") == keys.status("broken") == "held", "two held keys")
    eventually(lambda: app.snapshot().finished_records == RECORDS * scale, "the others")
    eventually(lambda: keys.status("stuck") == "running", "the stuck key as one that holds its commit")
    with pytest.raises(
        ActionRefusedError, match=r"stuck\), received .* s ago, is with its handler"
    ) as refused:
        keys.skip("stuck")
    assert refused.value.reason == "running"
    # A pause takes the key behind what runs, and ends.
    assert keys.pause("stuck").changed
    assert keys.resume("stuck").changed
    assert keys.skip("poison", preview=True).text.endswith("would be skipped.")
    assert keys.skip("poison").changed
    is_repaired.set()
    assert keys.retry("broken").changed
    eventually(lambda: app.snapshot().finished_records == RECORDS * scale + 1, "the retried record")
    assert app.snapshot().skipped_records == 1
    # All is committed but for the one partition that the stuck record holds.
    held = next(one for one in app.keys.blocking() if one.key == "stuck")
    stage.wait_until_committed({p: end for p, end in load.ends.items() if p != held.partition})
    freed.set()
    stage.wait_until_committed(load.ends)
    app.stop()
    judged(stage)


def test_row_15_keys_are_steered_while_all_workers_are_stuck(
    embedded_stage: Callable[..., Any],
    eventually: Callable[..., None],
    judged: Callable[..., None],
    scale: int,
    freed: threading.Event,
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
    eventually(lambda: keys.status("poison") == "held", "a held key")
    for number in range(RECORDS * scale):
        load.put(b"one-%d" % number)
    load.produce(0)
    eventually(lambda: len(began) == WORKERS + 1, "stuck workers")
    # Not all: who has enough at hand receives no more.
    eventually(lambda: app.snapshot().backlog_records > 4 * WORKERS, "records behind them")
    assert keys.skip("poison").changed
    queued = paused_one(keys, [b"one-%d" % number for number in range(RECORDS * scale)], began)
    assert keys.skip(queued.decode()).changed
    assert keys.pause_partition(f"{stage.topic}/0").changed
    assert keys.resume_partition(f"{stage.topic}/0").changed
    assert len(began) == WORKERS + 1
    assert app.snapshot().skipped_records == 2
    freed.set()
    stage.wait_until_committed(load.ends)
    app.stop()
    assert queued not in began
    judged(stage)
