"""What a run shows of outputs that are not acknowledged, and that it waits for them."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.metrics import Collector
from ehkafka.testing import ApiKey
from tests.contract import output_handlers
from tests.contract.test_app_until_caught_up import Run
from tests.kit.metrics import Shown

if TYPE_CHECKING:
    from pathlib import Path


class Gate(threading.Event):
    """What handlers wait for, in worker processes, too."""

    def set(self) -> None:
        """Let go on what waits."""
        super().set()
        output_handlers.open_gate()


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what handlers wait for; it is set when the test ends."""
    monkeypatch.setenv(output_handlers.DIRECTORY, str(tmp_path))
    gate = Gate()
    yield gate
    gate.set()


@pytest.fixture
def sending(lab: Any, gate: threading.Event) -> Any:
    """Return what makes an app with an output for each record, once the gate is open."""
    lab.broker.create_topic("out", 2)

    def make(*, batches: bool = False, app: Any = None, **options: Any) -> Any:
        app = lab.app(None, **(app or {}))

        def handle(record: Any) -> Any:
            assert gate.wait(30.0)
            record.send(str(record.offset()))

        def handle_all(batch: Any) -> Any:
            for record in batch:
                handle(record)

        if batches:
            app.batch_handler("t", to="out", wait_s_max=0.1, **options)(handle_all)
        else:
            in_process = isinstance(options.get("workers"), ehkafka.Processes)
            app.handler("t", to="out", **options)(output_handlers.sent_at_once if in_process else handle)
        return app

    return make


KINDS: dict[str, dict[str, Any]] = {
    "threads": {},
    "one key": {"order_by": ehkafka.by_partition},
    "shared keys": {"scope": "handler"},
    "batches": {"batches": True},
    "waiting": {"acknowledged": "before_next"},
    "processes": {"workers": ehkafka.Processes(2)},
    "waiting processes": {"workers": ehkafka.Processes(2), "acknowledged": "before_next"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_is_unfinished_until_its_outputs_are_acknowledged(
    lab: Any, sending: Any, gate: threading.Event, wait_for: Any, kind: str
) -> None:
    """Each record counts once, whether it has an outcome or not; the oldest one is named, with its key."""
    lab.produce("a b c d e f g h i j")
    app = sending(**KINDS[kind])
    shown = Shown(Collector(app))
    app.start()
    lab.broker.delay_next(ApiKey.PRODUCE, 2.0)
    gate.set()
    wait_for(lambda: app.snapshot().unacknowledged_outputs == 10)
    assert shown.value("ehkafka_unacknowledged_outputs") == 10
    if "waiting" not in kind:
        wait_for(lambda: app.snapshot().finished_records == 10)
    wait_for(lambda: app.snapshot().lag_records is not None)
    snapshot = app.snapshot()
    (one,) = snapshot.partitions
    assert (snapshot.lag_records, one.watermark) == (10, 0)
    assert one.oldest is not None
    assert (one.oldest.offset, one.oldest.key) == (0, "a")
    assert "acknowledged" in one.oldest.state
    wait_for(lambda: app.snapshot().lag_records == 0)
    wait_for(lambda: app.snapshot().partitions[0].committed == 10)
    (one,) = app.snapshot().partitions
    assert (one.watermark, one.oldest, app.snapshot().unacknowledged_outputs) == (10, None, 0)
    app.stop()


def test_health_says_when_outputs_wait_for_long(
    lab: Any, sending: Any, gate: threading.Event, wait_for: Any
) -> None:
    """After `stuck_s` it names the record that holds the commit, and is well again with the answer."""
    lab.produce("a b")
    app = sending(app={"stuck_s": 0.5})
    app.start()
    lab.broker.delay_next(ApiKey.PRODUCE, 2.5)
    gate.set()
    wait_for(lambda: app.snapshot().finished_records == 2)
    wait_for(lambda: any("outputs are not acknowledged" in reason for reason in app.health().reasons))
    wait_for(lambda: app.health().ok)
    app.stop()


def test_an_app_without_outputs_shows_no_count_of_them(lab: Any, recorder: Any, wait_for: Any) -> None:
    """A 0 would say that there is something to wait for."""
    app = lab.app(recorder)
    shown = Shown(Collector(app))
    app.start()
    assert app.snapshot().unacknowledged_outputs is None
    assert shown.value("ehkafka_unacknowledged_outputs") is None
    app.stop()


def test_a_run_until_caught_up_waits_for_outputs(
    lab: Any, sending: Any, gate: threading.Event, wait_for: Any
) -> None:
    """All is handled, nothing acknowledged: the run goes on, and ends with all that is committed."""
    lab.produce("a b c")
    app = sending()
    run = Run(app)
    wait_for(lambda: app.snapshot().received_records == 3)
    lab.broker.delay_next(ApiKey.PRODUCE, 2.0)
    gate.set()
    wait_for(lambda: app.snapshot().finished_records == 3)
    time.sleep(1.0)
    assert not run.has_ended
    assert app.state == "running"
    assert run.end() is None
    assert lab.committed() == 3


def test_a_run_until_caught_up_gives_up_on_outputs_that_nobody_acknowledges(
    lab: Any, sending: Any, gate: threading.Event, wait_for: Any
) -> None:
    """After `settle_s` the error says which record waits, and for what."""
    lab.produce("a b c")
    app = sending(app={"stop_s": 0.5})
    run = Run(app, settle_s=1.0)
    wait_for(lambda: app.snapshot().received_records == 3)
    lab.broker.delay_next(ApiKey.PRODUCE, 8.0)
    gate.set()
    error = run.end()
    assert isinstance(error, ehkafka.errors.UnfinishedError)
    assert "t[0]@0 (its outputs are not acknowledged by the broker)" in str(error)
    assert lab.committed() in (0, None)
