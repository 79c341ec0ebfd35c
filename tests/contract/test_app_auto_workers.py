"""`workers="auto"`: the app finds out how many workers a handler needs, and shows what it found."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.errors import ConfigurationError
from ehkafka.events import HandlerResized, UserCodeFailed
from ehkafka.run import resizing
from ehkafka.workers import auto_size
from tests.kit.waiting import must_stay, wait_until

if TYPE_CHECKING:
    from tests.contract.kinds import Stage


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A try takes tenths of a second."""
    monkeypatch.setattr(resizing, "CHECK_S", 0.05)
    monkeypatch.setattr(auto_size, "SETTLE_S", 0.1)
    monkeypatch.setattr(auto_size, "WINDOW_S", 0.3)


def workers_of(app: ehkafka.App) -> int:
    """Return how many workers the app's one handler has."""
    (handler,) = app.snapshot().handlers
    return handler.workers


def feed(lab: Any, records: int = 20_000) -> None:
    """Produce as many records of as many keys."""
    lab.produce(" ".join(f"key{number}" for number in range(records)))


def test_threads_that_sleep_become_more(lab: Any, events: Any) -> None:
    """Up to the bound; the snapshot shows it with its bounds, and an event each number that is kept."""
    feed(lab)
    app = lab.start(lambda _record: time.sleep(0.02), workers=ehkafka.Auto(2, 64))
    assert workers_of(app) == 16
    wait_until(lambda: workers_of(app) == 64)
    wait_until(lambda: any(event.workers == 64 for event in events.of(HandlerResized)))
    (handler,) = app.snapshot().handlers
    assert handler.workers_auto == (2, 64)
    found = events.of(HandlerResized)
    assert all(event.is_auto for event in found)
    assert [event.workers_before for event in found] == [16, *(event.workers for event in found[:-1])]
    app.stop(drain="running")


def test_tasks_become_more(lab: Any) -> None:
    """An `async def` begins with 64."""

    async def handle(_record: Any) -> None:
        await asyncio.sleep(0.1)

    feed(lab)
    app = lab.start(handle, workers="auto")
    assert workers_of(app) == 64
    wait_until(lambda: workers_of(app) >= 128)
    app.stop(drain="running")


def test_a_number_that_is_asked_for_ends_the_search(lab: Any) -> None:
    """A number that a program gives stays."""
    feed(lab)
    app = lab.start(lambda _record: time.sleep(0.02), workers=ehkafka.Auto(2, 200))
    wait_until(lambda: workers_of(app) > 16)
    app.resize("<lambda>", workers=3)
    must_stay(lambda: workers_of(app) == 3, for_s=1.5)
    app.stop(drain="running")


def test_a_set_up_that_fails_ends_the_search(lab: Any, events: Any) -> None:
    """It is reported once, and those that work go on."""
    feed(lab)
    started: list[str] = []

    def set_up() -> None:
        if len(started) >= 16:
            raise ConnectionError("no connection left")
        started.append(threading.current_thread().name)

    app = lab.app(lambda _record: time.sleep(0.02), workers="auto")
    app.on_worker_start(set_up)
    app.start()
    wait_until(lambda: events.of(UserCodeFailed))
    must_stay(lambda: workers_of(app) == 16, for_s=1.0)
    assert len(events.of(UserCodeFailed)) == 1
    before = app.snapshot().finished_records
    wait_until(lambda: app.snapshot().finished_records > before)
    app.stop(drain="running")


def test_no_thread_is_left_and_none_is_there_without_auto(lab: Any, recorder: Any) -> None:
    """The thread that looks ends with the app."""

    def lookers() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread.name == "ehkafka-auto"]

    app = lab.start(recorder, workers=2)
    assert not lookers()
    app.stop()
    app = lab.start(recorder, workers="auto")
    assert lookers()
    app.stop()
    wait_until(lambda: not lookers())


# --- by hand ---


IN_THREE = pytest.mark.parametrize("stage", ["threads", "tasks", "batches"], indirect=True)


def live_workers() -> list[str]:
    """Names of the live worker threads."""
    return [t.name for t in threading.enumerate() if t.name.startswith("ehkafka-Recorder-")]


def resize(app: Any, workers: int) -> None:
    """Change the number of the app's one handler."""
    (handler,) = app.snapshot().handlers
    app.resize(handler.handler, workers=workers)


def blocked(stage: Stage, count: int, gate: str = "gate") -> None:
    """Produce records of as many keys that wait."""
    stage.produce(*((f"{gate}{number}", f"wait {gate}") for number in range(count)))


@IN_THREE
def test_more_workers_take_waiting_records_at_once(stage: Stage, events: Any) -> None:
    """Never more at once than there are workers, before and after."""
    blocked(stage, 8)
    app = stage.start(workers=2)
    wait_until(lambda: stage.running == 2)
    must_stay(lambda: stage.running == 2, for_s=0.1)
    resize(app, 5)
    wait_until(lambda: stage.running == 5)
    must_stay(lambda: stage.running == 5, for_s=0.1)
    stage.open()
    wait_until(lambda: stage.lab.committed() == 8)
    assert stage.running_max == 5
    (event,) = events.of(HandlerResized)
    assert (event.workers_before, event.workers) == (2, 5)


@IN_THREE
def test_idle_surplus_workers_leave_at_once_and_take_nothing_more(stage: Stage) -> None:
    """Also those that wait for their turn at collecting; a later growth starts new ones."""
    app = stage.start(workers=6)
    resize(app, 2)
    blocked(stage, 6)
    wait_until(lambda: stage.running == 2)
    must_stay(lambda: stage.running == 2, for_s=0.2)
    resize(app, 3)
    wait_until(lambda: stage.running == 3)
    stage.open()
    wait_until(lambda: stage.lab.committed() == 6)
    assert stage.running_max == 3


@IN_THREE
def test_busy_surplus_workers_leave_after_their_turn(stage: Stage) -> None:
    """Nothing is cut off; from then on as many run at once as the new number says."""
    blocked(stage, 4)
    app = stage.start(workers=4)
    wait_until(lambda: stage.running == 4)
    resize(app, 1)
    blocked(stage, 8, "never")
    wait_until(lambda: app.snapshot().received_records == 12)
    assert stage.running == 4
    stage.open()
    wait_until(lambda: len(stage.lines("end")) == 4 and stage.running == 1)
    must_stay(lambda: stage.running == 1, for_s=0.2)
    # Those that were to leave may stay instead, if that is what is wanted next.
    resize(app, 3)
    wait_until(lambda: stage.running == 3)
    stage.open("never")
    wait_until(lambda: stage.lab.committed() == 12)


def test_workers_that_come_and_leave_run_their_hooks(lab: Any, recorder: Any) -> None:
    """Each sets up before its first record, and is torn down on its own thread."""
    set_up: list[str] = []
    torn_down: list[str] = []
    app = lab.app(recorder, workers=6)
    app.on_worker_start(lambda: set_up.append(threading.current_thread().name))
    app.on_worker_stop(lambda: torn_down.append(threading.current_thread().name))
    app.start()
    resize(app, 2)
    wait_until(lambda: len(live_workers()) == 2 and len(torn_down) == 4)
    resize(app, 3)
    lab.produce("a b c d e f")
    wait_until(lambda: lab.committed() == 6)
    assert len(set_up) == 7
    assert recorder.threads <= set(set_up)
    app.stop()
    assert sorted(torn_down) == sorted(set_up)
    assert not live_workers()


def test_order_and_liveness_hold_while_the_number_changes_under_load(lab: Any, recorder: Any) -> None:
    """Quick handlers, 30 changes between 1 and 8; the history is judged when the test ends."""
    app = lab.start(recorder, workers=4)
    for number in range(30):
        lab.produce("a b c d e f g h i j " * 10)
        resize(app, 1 + (number * 5) % 8)
    wait_until(lambda: lab.committed() == 3_000)
    resize(app, 2)
    wait_until(lambda: len(live_workers()) == 2)


def test_a_failing_set_up_leaves_the_number_as_it_was(lab: Any, recorder: Any) -> None:
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
        resize(app, 5)
    wait_until(lambda: len(live_workers()) == 2)
    assert len(torn_down) == 2
    lab.produce("a b c")
    wait_until(lambda: lab.committed() == 3)
    resize(app, 3)
    assert len(live_workers()) == 3


def test_what_cannot_be_resized_is_refused_with_what_there_is(lab: Any) -> None:
    """Numbers that cannot be, unknown and ambiguous names, an app that does not run."""

    def one(_record: Any) -> None:
        pass

    def make() -> Any:
        def twin(_record: Any) -> None:
            pass

        return twin

    app = lab.app(one, workers=2)
    for topic in ("u", "t4"):
        app.handler(topic)(make())
    with pytest.raises(ConfigurationError, match="the app is new; set workers= where"):
        app.resize("one", workers=2)
    app.start()
    for wrong in (0, -1, 2.0, "4", True, None, 10_001):
        with pytest.raises(ConfigurationError, match=f"workers={wrong!r}.*give a number from 1 to 10000"):
            app.resize("one", workers=wrong)
    assert [handler.workers for handler in app.snapshot().handlers if handler.handler == "one"] == [2]
    with pytest.raises(ConfigurationError, match=r"'no such'.*its handlers are 'one', 'twin', 'twin'"):
        app.resize("no such", workers=2)
    with pytest.raises(ConfigurationError, match="2 handlers are named 'twin'"):
        app.resize("twin", workers=2)
    app.stop()
    with pytest.raises(ConfigurationError, match="the app is stopped"):
        app.resize("one", workers=2)
