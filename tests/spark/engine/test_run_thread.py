"""A run's own thread, without Spark: what it does between calls, whose errors it has, how it ends."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from ehkafka.spark.engine.run_thread import RunThread

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def turns() -> threading.Semaphore:
    """Return what counts the turns between calls."""
    return threading.Semaphore(0)


@pytest.fixture
def thread(turns: threading.Semaphore) -> Iterator[RunThread]:
    """Return one that has begun."""
    pause = threading.Event()

    def meanwhile() -> None:
        turns.release()
        pause.wait(0.001)

    thread, ended = RunThread(meanwhile), threading.Event()
    thread.start()
    yield thread
    if not thread.is_left:
        thread.leave_to(ended.set)
        assert ended.wait(60)


def test_what_is_owed_is_done_between_calls(thread: RunThread, turns: threading.Semaphore) -> None:
    """Nobody who waits for the run's answer is kept waiting by whoever starts it."""
    assert turns.acquire(timeout=60)
    assert thread.call(lambda: threading.current_thread().name) == "ehkafka-spark"
    while turns.acquire(blocking=False):
        pass
    assert turns.acquire(timeout=60)


def test_what_a_call_raises_is_the_callers(thread: RunThread) -> None:
    """The very error, also one that asks the process to leave; the thread goes on."""
    for error in (LookupError("none"), SystemExit("leave")):

        def fail(error: BaseException = error) -> None:
            raise error

        with pytest.raises(type(error)) as reported:
            thread.call(fail)
        assert reported.value is error
    assert thread.call(lambda: 7) == 7


def test_it_ends_with_what_it_was_left_to(thread: RunThread) -> None:
    """From then on it does that alone, after what it does, whatever became of who had asked."""
    asked, ended, reported = threading.Event(), threading.Event(), list[str]()

    def ask() -> None:
        asked.set()
        reported.append(threading.current_thread().name)

    def rest() -> None:
        reported.append("rest")
        ended.set()

    assert not thread.is_left
    caller = threading.Thread(target=thread.call, args=[ask])
    caller.start()
    assert asked.wait(60)
    thread.leave_to(rest)
    assert thread.is_left
    assert ended.wait(60)
    caller.join()
    assert reported == ["ehkafka-spark", "rest"]


def test_what_one_that_never_began_is_left_to_is_done_all_the_same() -> None:
    """A signal may come before it has begun: then whoever leaves it does it, and it never begins."""
    done: list[str] = []
    thread = RunThread(lambda: None)
    thread.leave_to(lambda: done.append(threading.current_thread().name))
    thread.start()
    thread._thread.join()
    assert done == [threading.current_thread().name]
