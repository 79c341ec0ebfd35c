"""The number of a handler's workers changes while the app runs."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import ehkafka
from ehkafka.events import HandlerResized


def live_workers(name: str = "Recorder") -> list[str]:
    """Names of the live worker threads."""
    return [t.name for t in threading.enumerate() if t.name.startswith(f"ehkafka-{name}-")]


def test_more_workers_take_waiting_records_at_once(
    lab: Any, events: Any, recorder: Any, wait_for: Any, stays: Any
) -> None:
    """Never more at once than there are workers, before and after; new ones run on_worker_start first."""
    gate = recorder.block()
    set_up_on: list[str] = []
    lab.produce("a b c d e f g h")
    app = lab.app(recorder, workers=2)
    app.on_worker_start(lambda: set_up_on.append(threading.current_thread().name))
    app.add_hook(events)
    app.start()
    wait_for(lambda: recorder.running["all"] == 2)
    stays(lambda: recorder.running["all"] == 2, for_s=0.1)
    app.resize("Recorder", workers=5)
    assert len(set_up_on) == 5
    wait_for(lambda: recorder.running["all"] == 5)
    stays(lambda: recorder.running["all"] == 5, for_s=0.1)
    gate.set()
    wait_for(lambda: lab.committed() == 8)
    assert recorder.running_max == 5
    assert recorder.threads <= set(set_up_on)
    (event,) = events.of(HandlerResized)
    assert (event.handler, event.workers_before, event.workers) == ("Recorder", 2, 5)
    app.stop()
    assert not live_workers()


def test_idle_surplus_workers_leave_at_once_and_run_on_worker_stop(
    lab: Any, recorder: Any, wait_for: Any
) -> None:
    """The rest goes on with what comes; a later growth starts new ones."""
    torn_down: list[str] = []
    app = lab.app(recorder, workers=6)
    app.on_worker_stop(lambda: torn_down.append(threading.current_thread().name))
    app.start()
    app.resize("Recorder", workers=2)
    wait_for(lambda: len(live_workers()) == 2)
    wait_for(lambda: len(torn_down) == 4)
    gate = recorder.block()
    lab.produce("a b c d e f")
    wait_for(lambda: recorder.running["all"] == 2)
    app.resize("Recorder", workers=3)
    wait_for(lambda: recorder.running["all"] == 3)
    gate.set()
    wait_for(lambda: lab.committed() == 6)
    assert recorder.running_max == 3
    app.stop()
    assert len(torn_down) == 7


def test_idle_surplus_batch_workers_leave_at_once_and_take_nothing_more(lab: Any, wait_for: Any) -> None:
    """Also those that wait for their turn at collecting: no more than that run at once afterwards."""
    gate = threading.Event()
    running: list[Any] = []

    def store(batch: ehkafka.Batch) -> None:
        running.append(batch)
        assert gate.wait(30.0)

    app = lab.app()
    app.batch_handler("t", batch_records_max=1, wait_s_max=0.01, workers=6)(store)
    app.start()
    app.resize("store", workers=2)
    wait_for(lambda: len(live_workers("store")) == 2)
    lab.produce("a b c d")
    wait_for(lambda: len(running) == 2)
    app.resize("store", workers=3)
    wait_for(lambda: len(running) == 3)
    gate.set()
    wait_for(lambda: lab.committed() == 4)
    app.stop()


def test_busy_surplus_workers_leave_after_their_turn(
    lab: Any, recorder: Any, wait_for: Any, stays: Any
) -> None:
    """Nothing is cut off; from then on as many run at once as the new number says."""
    # Which keys come first is up to the engine.
    first = recorder.block(lambda _record: len(recorder.started) <= 4)
    lab.produce("a b c d e f g h i j k l")
    app = lab.app(recorder, workers=4)
    app.start()
    wait_for(lambda: recorder.running["all"] == 4)
    app.resize("Recorder", workers=1)
    assert len(live_workers()) == 4
    four = set(recorder.offsets())
    second = recorder.block(lambda record: record.offset() not in four)
    first.set()
    wait_for(lambda: recorder.count == 4)
    wait_for(lambda: recorder.running["all"] == 1)
    wait_for(lambda: len(live_workers()) == 1)
    stays(lambda: recorder.running["all"] == 1, for_s=0.2)
    # Those that were to leave may stay instead, if that is what is wanted next.
    app.resize("Recorder", workers=3)
    wait_for(lambda: recorder.running["all"] == 3)
    second.set()
    wait_for(lambda: lab.committed() == 12)
    app.stop()


def test_leaving_workers_stay_when_the_number_grows_again(lab: Any, recorder: Any, wait_for: Any) -> None:
    """Down and up while all are busy: no thread is started or ended for it."""
    gate = recorder.block()
    lab.produce("a b c d e f g h")
    app = lab.app(recorder, workers=4)
    app.start()
    wait_for(lambda: recorder.running["all"] == 4)
    before = live_workers()
    app.resize("Recorder", workers=1)
    app.resize("Recorder", workers=4)
    gate.set()
    wait_for(lambda: lab.committed() == 8)
    assert live_workers() == before
    app.stop()


def test_order_and_liveness_hold_while_the_number_changes_under_load(lab: Any, wait_for: Any) -> None:
    """Quick handlers, 30 changes between 1 and 8; the history is judged when the test ends."""
    recorder = lab.recorder()
    app = lab.app(recorder, workers=4)
    app.start()
    for number in range(30):
        lab.produce("a b c d e f g h i j " * 10)
        app.resize("Recorder", workers=1 + (number * 5) % 8)
    wait_for(lambda: lab.committed() == 3_000)
    app.resize("Recorder", workers=2)
    wait_for(lambda: len(live_workers()) == 2)
    app.stop()


def test_a_failing_set_up_leaves_the_number_as_it_was(lab: Any, recorder: Any, wait_for: Any) -> None:
    """Its error is raised to the caller; the app goes on, and those that were set up are torn down."""
    calls: list[int] = []
    torn_down: list[int] = []

    def set_up() -> None:
        calls.append(1)
        if len(calls) == 4:
            raise OSError("no connection left")

    app = lab.app(recorder, workers=2)
    app.on_worker_start(set_up)
    app.on_worker_stop(lambda: torn_down.append(1))
    app.start()
    with pytest.raises(OSError, match="no connection left"):
        app.resize("Recorder", workers=5)
    wait_for(lambda: len(live_workers()) == 2)
    assert len(torn_down) == 2
    lab.produce("a b c")
    wait_for(lambda: lab.committed() == 3)
    app.resize("Recorder", workers=3)
    assert len(live_workers()) == 3
    app.stop()


def test_asyncio_workers_change_in_number_too(lab: Any, wait_for: Any, stays: Any) -> None:
    """More calls at once after a growth, fewer after a shrink."""
    running: list[int] = [0]
    started: list[int] = []
    gates = {"first": threading.Event(), "second": threading.Event()}

    async def handle(record: Any) -> None:
        started.append(record.offset())
        running[0] += 1
        try:
            gate = gates["first" if len(started) <= 5 else "second"]
            assert await asyncio.to_thread(gate.wait, 30.0)
        finally:
            running[0] -= 1

    lab.produce("a b c d e f g h i j")
    app = lab.app(handle, workers=2)
    app.start()
    wait_for(lambda: running[0] == 2)
    app.resize("handle", workers=5)
    wait_for(lambda: running[0] == 5)
    app.resize("handle", workers=1)
    gates["first"].set()
    wait_for(lambda: running[0] == 1)
    stays(lambda: running[0] == 1, for_s=0.2)
    gates["second"].set()
    wait_for(lambda: lab.committed() == 10)
    app.stop()


def test_a_number_that_cannot_be_is_refused(lab: Any, recorder: Any) -> None:
    """Value and fix; the number stays as it was."""
    app = lab.app(recorder, workers=2)
    app.start()
    for wrong in (0, -1, 2.0, "4", True, None, 10_001):
        with pytest.raises(
            ehkafka.errors.ConfigurationError, match="give a number from 1 to 10000"
        ) as caught:
            app.resize("Recorder", workers=wrong)
        assert f"workers={wrong!r}" in str(caught.value)
        assert len(live_workers()) == 2
    app.stop()


def test_what_cannot_be_resized_is_refused_with_what_there_is(lab: Any) -> None:
    """Unknown and ambiguous names, an app that does not run."""

    def one(_record: Any) -> None:
        pass

    def make() -> Any:
        def twin(_record: Any) -> None:
            pass

        return twin

    app = lab.app()
    for topic, function in (("t", one), ("u", make()), ("t4", make())):
        app.handler(topic)(function)
    with pytest.raises(ehkafka.errors.ConfigurationError, match="the app is new; set workers= where"):
        app.resize("one", workers=2)
    app.start()
    with pytest.raises(
        ehkafka.errors.ConfigurationError, match=r"'nobody'.*this app has 'one', 'twin', 'twin'"
    ):
        app.resize("nobody", workers=2)
    with pytest.raises(ehkafka.errors.ConfigurationError, match="2 handlers are named 'twin'"):
        app.resize("twin", workers=2)
    app.stop()
    with pytest.raises(ehkafka.errors.ConfigurationError, match="the app is stopped"):
        app.resize("one", workers=2)
