"""Python's garbage collector during `run`: set when asked for, never by `start`, restored at the end."""

from __future__ import annotations

import gc
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.run.collector import collector_set

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

THRESHOLD = 43_210


@pytest.fixture(autouse=True)
def collector() -> Iterator[tuple[int, int, int]]:
    """What the collector is set to; it must be that again in the end, with nothing frozen."""
    before = gc.get_threshold()
    assert gc.get_freeze_count() == 0
    yield before
    found, frozen = gc.get_threshold(), gc.get_freeze_count()
    gc.set_threshold(*before)
    gc.unfreeze()
    assert (found, frozen) == (before, 0)


def run_beside(app: Any, **options: Any) -> Callable[[], list[BaseException]]:
    """Run an app on a thread of its own; return what stops it and tells what it raised."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            app.run(**options)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()

    def ended() -> list[BaseException]:
        with suppress(ehkafka.errors.EhkafkaError):  # what ended it, if it is quicker than `run`
            app.stop()
        thread.join(15.0)
        assert not thread.is_alive()
        return raised

    return ended


def test_run_sets_the_collector_while_the_app_runs(lab: Any, wait_for: Any) -> None:
    """The other generations stay as they are; the objects of the start are frozen."""
    recorder = lab.recorder()
    app = lab.app(recorder)
    ended = run_beside(app, gc_freeze=True, gc_threshold=THRESHOLD)
    wait_for(lambda: gc.get_freeze_count() > 0)
    assert gc.get_threshold() == (THRESHOLD, *gc.get_threshold()[1:])
    lab.produce("a b c")
    wait_for(lambda: recorder.count == 3)
    assert ended() == []


def test_run_and_start_leave_the_collector_alone_unless_asked(
    lab: Any, wait_for: Any, collector: Any
) -> None:
    """It is the whole process's: who embeds the app decides himself."""
    seen: list[tuple[Any, int]] = []
    app = lab.app(lambda _record: seen.append((gc.get_threshold(), gc.get_freeze_count())))
    ended = run_beside(app)
    lab.produce("a")
    wait_for(lambda: seen)
    assert ended() == []
    with app:
        lab.produce("b")
        wait_for(lambda: len(seen) > 1)
    assert seen == [(collector, 0)] * 2


def test_the_collector_is_restored_when_an_error_ends_the_run(lab: Any, recorder: Any, wait_for: Any) -> None:
    """A process that goes on after it is as it was."""
    recorder.fail_at(0)
    app = lab.app(recorder)
    ended = run_beside(app, gc_freeze=True, gc_threshold=THRESHOLD)
    wait_for(lambda: gc.get_freeze_count() > 0)
    lab.produce("a")
    wait_for(lambda: app.state == "stopped")
    [error] = ended()
    assert isinstance(error, ehkafka.errors.HandlerFailedError)


@pytest.mark.parametrize("threshold", [0, -5, True])
def test_a_threshold_below_one_is_refused_before_the_start(lab: Any, recorder: Any, threshold: Any) -> None:
    """0 would turn the collector off, which nobody may do by accident."""
    app = lab.app(recorder)
    with pytest.raises(ehkafka.errors.ConfigurationError, match="gc_threshold"):
        app.run(gc_threshold=threshold)
    assert app.state == "new"


def test_what_others_froze_or_set_stays(collector: Any) -> None:
    """A forking server freezes before it forks; the app's own code may set a threshold while it runs."""
    gc.freeze()
    with collector_set(freeze=True, threshold=THRESHOLD):
        gc.set_threshold(1_234)
    assert gc.get_freeze_count() > 0
    assert gc.get_threshold()[0] == 1_234
    gc.unfreeze()
    gc.set_threshold(*collector)
