"""Deadlines of calls on a loop: one timer over all of them, and no cancellation left for the next record."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.workers.tasks.deadlines import LATE_SHARE, Deadlines

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

DEADLINE_S = 10.0


class Bench:
    """A loop whose time is a number, and tasks on it that make one call after another."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.now_s = 100.0
        self.loop.time = lambda: self.now_s  # type: ignore[method-assign]
        self.timers = 0
        call_at = self.loop.call_at

        def counted(*arguments: Any, **options: Any) -> asyncio.TimerHandle:
            self.timers += 1
            return call_at(*arguments, **options)

        self.loop.call_at = counted  # type: ignore[method-assign]
        self.deadlines = Deadlines(DEADLINE_S)
        # What each call came to, in the order of their ends.
        self.ends: list[Any] = []

    def serve(self, *calls: Callable[[], Coroutine[Any, Any, object]]) -> asyncio.Task[None]:
        """Make calls one after another in a task."""
        invokes = [self.deadlines.within(lambda _entry, _number, call=call: call()) for call in calls]  # type: ignore[misc]

        async def run() -> None:
            for invoke in invokes:
                try:
                    self.ends.append(await invoke(None, 1))  # type: ignore[arg-type]
                except BaseException as error:
                    self.ends.append(error)
                task = asyncio.current_task()
                assert task is not None
                self.ends.append(task.cancelling())

        return self.loop.create_task(run())

    def turn(self, to_s: float | None = None) -> None:
        """Let the loop go round a few times, at a later time."""
        self.now_s = self.now_s if to_s is None else to_s
        for _ in range(5):
            self.loop.call_soon(self.loop.stop)
            self.loop.run_forever()


@pytest.fixture
def bench() -> Iterator[Bench]:
    """Make a bench whose loop ends with the test."""
    made = Bench()
    yield made
    for task in asyncio.all_tasks(made.loop):
        task.cancel()
    made.turn()
    made.loop.close()


async def quick() -> str:
    """Return after a round."""
    await asyncio.sleep(0)
    return "done"


def test_a_thousand_calls_need_one_timer(bench: Bench) -> None:
    """However many begin and end within a deadline."""
    for _ in range(100):
        bench.serve(*[quick] * 10)
    while len(bench.ends) < 2_000:
        bench.turn()
    assert set(bench.ends) == {"done", 0}
    assert bench.timers == 1


def test_a_late_call_fails_with_a_timeout_and_its_task_goes_on(bench: Bench) -> None:
    """Its error says what happened; the next call of the task knows nothing of it."""
    bench.serve(asyncio.Event().wait, quick)
    bench.turn()
    bench.turn(100.0 + DEADLINE_S)
    error, left, result, left_then = bench.ends
    assert isinstance(error, TimeoutError)
    assert str(error) == "the call took longer than deadline_s=10 and was cancelled"
    assert (left, result, left_then) == (0, "done", 0)


def test_calls_are_cancelled_at_their_own_deadlines(bench: Bench) -> None:
    """One that began later has its time; none is later than a share of the deadline."""
    bench.serve(asyncio.Event().wait)
    bench.turn()
    bench.now_s = 100.3
    bench.serve(asyncio.Event().wait)
    bench.turn()
    bench.turn(100.0 + DEADLINE_S)
    assert [type(end) for end in bench.ends] == [TimeoutError, int]
    bench.turn(100.0 + DEADLINE_S + 0.3)
    bench.turn(100.0 + DEADLINE_S * (1 + LATE_SHARE))
    assert [type(end) for end in bench.ends] == [TimeoutError, int] * 2


def test_a_call_that_is_cancelled_as_it_ends_leaves_nothing_to_the_next(bench: Bench) -> None:
    """What it waited for is there in the very round in which its deadline passes."""
    answer: asyncio.Future[str] = bench.loop.create_future()

    async def wait() -> str:
        return await answer

    bench.serve(wait, quick)
    bench.turn()
    bench.loop.call_at(100.0 + DEADLINE_S - 1e-6, answer.set_result, "late")
    bench.turn(100.0 + DEADLINE_S)
    assert [type(end) for end in bench.ends] == [TimeoutError, int, str, int]
    assert bench.ends[1:] == [0, "done", 0]


def test_a_call_that_swallows_its_cancellation_counts_as_it_ends(bench: Bench) -> None:
    """Its result is taken, and the cancellation is not the next record's."""

    async def stubborn() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "all the same"
        raise AssertionError

    bench.serve(stubborn, quick)
    bench.turn()
    bench.turn(100.0 + DEADLINE_S)
    assert bench.ends == ["all the same", 0, "done", 0]


def test_a_call_that_raises_as_it_is_cancelled_fails_with_that(bench: Bench) -> None:
    """A clean-up that breaks is what its user wants to read of."""

    async def breaks() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("the clean-up broke")

    bench.serve(breaks, quick)
    bench.turn()
    bench.turn(100.0 + DEADLINE_S)
    error, *others = bench.ends
    assert isinstance(error, ValueError)
    assert others == [0, "done", 0]


def test_a_call_that_others_cancel_too_is_cancelled(bench: Bench) -> None:
    """The end of its epoch, or of its loop, is no deadline."""
    task = bench.serve(asyncio.Event().wait)
    bench.turn()
    bench.loop.call_at(100.0 + DEADLINE_S - 1e-6, task.cancel)
    bench.turn(100.0 + DEADLINE_S)
    assert [type(end) for end in bench.ends] == [asyncio.CancelledError, int]
    assert bench.ends[1] == 1


def test_mutant_a_swallowed_cancellation_stays(bench: Bench, mutate: Callable[..., None]) -> None:
    """Without taking it back it would stay on the task."""
    mutate(Deadlines, "within", "not task.uncancel() and ", "")
    test = test_a_call_that_swallows_its_cancellation_counts_as_it_ends
    with pytest.raises(AssertionError):
        test(bench)
