"""`on_end`: what an app that fails does to the task that entered it, whatever else happens then."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.errors import HandlerFailedError
from ehkafka.events import UserCodeFailed
from tests.contract.in_loop import failing, is_at_once, until
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

# --- a task ----------------------------------------------------------------------------------------------


async def sleeps(_app: Any, _seen: list[Any]) -> None:
    """Be cut off."""
    await asyncio.sleep(30.0)


async def ends_by_itself(app: Any, _seen: list[Any]) -> None:
    """Block the loop until the app has failed, so that nothing is delivered, and end."""
    wait_until(lambda: app.state != "running")


async def swallows_its_cancellation(_app: Any, seen: list[Any]) -> None:
    """Go on after it; what is awaited then is not cut off again."""
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(30.0)
    await asyncio.sleep(0.05)
    seen.append("went on")


async def raises_its_own(_app: Any, _seen: list[Any]) -> None:
    """Fail, too: neither error hides the other."""
    try:
        await asyncio.sleep(30.0)
    finally:
        raise KeyError("the body's")


async def has_another_thread_fetch_it(app: Any, _seen: list[Any]) -> None:
    """Let `stop` raise it elsewhere: the block was cut off by it and raises it, and no cancellation."""
    try:
        await asyncio.sleep(30.0)
    finally:
        with pytest.raises(HandlerFailedError):
            await asyncio.to_thread(app.stop)


BODIES = [sleeps, ends_by_itself, swallows_its_cancellation, raises_its_own, has_another_thread_fetch_it]


@pytest.mark.parametrize(("body", "loop"), [*((body, "own") for body in BODIES), (sleeps, "caller")])
def test_the_task_in_the_block_is_cut_off_and_the_error_is_raised_at_its_end(
    lab: Any, body: Callable[[Any, list[Any]], Awaitable[None]], loop: str
) -> None:
    """At once; the cancellation counts no more, and what the body raised is the error's context."""

    async def fail(_record: Any) -> None:
        raise ValueError("no luck")

    app = lab.app(fail, loop=loop)
    lab.produce("a")
    seen: list[Any] = []

    async def main() -> None:
        began_s = time.monotonic()
        with pytest.raises(HandlerFailedError, match="no luck") as raised:
            async with app:
                await body(app, seen)
        assert is_at_once(began_s)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        await asyncio.sleep(0)  # nothing is left to be delivered
        assert app.state == "stopped"
        if body is raises_its_own:
            assert isinstance(raised.value.__context__, KeyError)

    asyncio.run(main())
    assert seen == ["went on"] * (body is swallows_its_cancellation)


@pytest.mark.parametrize("loop", ["own", "caller"])
def test_a_failure_before_the_block_begins_is_raised_by_the_block(lab: Any, loop: str) -> None:
    """Not as a cancellation of the start."""
    app = lab.app(loop=loop)
    start = app._life.start

    @app.handler("t")
    async def fail(_record: Any) -> None:
        raise ValueError("no luck")

    def start_and_fail(*given: Any, **named: Any) -> None:
        start(*given, **named)
        wait_until(lambda: app.state != "running")

    app._life.start = start_and_fail
    lab.produce("a")
    inside: list[bool] = []

    async def main() -> None:
        async with app:
            inside.append(True)
            await asyncio.sleep(30.0)

    with pytest.raises(HandlerFailedError):
        asyncio.run(main())
    assert inside == [True]


def test_a_cancellation_from_outside_at_the_same_time_still_counts(lab: Any) -> None:
    """The error is raised, and the task knows that it is to end for another reason, too."""
    app = failing(lab)
    counts: list[int] = []

    async def live() -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            async with app:
                await asyncio.sleep(30.0)
        finally:
            counts.append(task.cancelling())

    async def main() -> None:
        task = asyncio.create_task(live())
        await until(lambda: app.state == "running")
        lab.produce("a")
        while app.state == "running":  # noqa: ASYNC110 - another thread's work
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(HandlerFailedError):
            await task

    asyncio.run(main())
    assert counts == [1]


def test_a_cancellation_from_outside_alone_goes_through(lab: Any, recorder: Any) -> None:
    """The app stops in good order first, also when another one comes while it does."""
    gate = recorder.block()
    app = lab.app(recorder)
    lab.produce("a")

    async def live() -> None:
        async with app:
            await asyncio.sleep(30.0)

    async def main() -> None:
        task = asyncio.create_task(live())
        await until(lambda: recorder.started)
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0.1)
        assert not task.done()  # its handler still runs
        gate.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert app.state == "stopped"

    asyncio.run(main())
    assert lab.committed() == 1


def test_a_timeout_around_the_block_is_a_timeout(lab: Any) -> None:
    """`asyncio.timeout` and a failure keep their own counts apart."""

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3), lab.app(lambda _record: None):
                await asyncio.sleep(30.0)
        lab.produce("a")
        with pytest.raises(HandlerFailedError):
            async with asyncio.timeout(30.0), failing(lab, group="h"):
                await asyncio.sleep(30.0)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    lab.judged = False  # two groups
    asyncio.run(main())


def test_a_task_group_hears_of_the_error_and_not_of_a_cancellation(lab: Any) -> None:
    """The task that entered fails like any other, and its siblings are cancelled."""
    app = failing(lab)
    lab.produce("a")
    cancelled: list[bool] = []

    async def live() -> None:
        async with app:
            await asyncio.sleep(30.0)

    async def other() -> None:
        try:
            await asyncio.sleep(30.0)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(live())
            group.create_task(other())

    with pytest.raises(ExceptionGroup) as raised:
        asyncio.run(main())
    assert [type(error) for error in raised.value.exceptions] == [HandlerFailedError]
    assert cancelled == [True]


def test_a_stop_that_was_asked_for_cuts_nothing_off(lab: Any) -> None:
    """It is no failure, and the record whose handler asked is committed."""
    app = lab.app(lambda _record: app.stop())
    lab.produce("a")

    async def main() -> None:
        async with app:
            await asyncio.to_thread(app.wait, 10.0)
            await asyncio.sleep(0.05)

    asyncio.run(main())
    assert lab.committed() == 1


# --- other choices ---------------------------------------------------------------------------------------


def test_a_function_is_called_once_with_the_error_and_nothing_is_cut_off(lab: Any) -> None:
    """On the loop that entered; the block's end still raises it."""
    called: list[tuple[BaseException, Any]] = []
    app = failing(lab, on_end=lambda error: called.append((error, asyncio.get_running_loop())))
    lab.produce("a")

    async def main() -> None:
        with pytest.raises(HandlerFailedError):  # noqa: PT012 - the block is tested
            async with app:
                await until(lambda: called)
                await asyncio.sleep(0.1)
        assert called[0][1] is asyncio.get_running_loop()

    asyncio.run(main())
    assert [type(error) for error, _ in called] == [HandlerFailedError]


def test_without_a_loop_the_function_has_a_thread_of_its_own(lab: Any) -> None:
    """It may wait, and stop the app."""
    threads: list[str] = []

    def end(_error: BaseException) -> None:
        with suppress(ehkafka.EhkafkaError):
            app.stop()
        threads.append(threading.current_thread().name)

    app = failing(lab, on_end=end)
    lab.produce("a")
    app.start()
    wait_until(lambda: threads)
    assert threads == ["ehkafka-on-end"]
    assert app.state == "stopped"


@pytest.mark.parametrize("way", ["start", "with", "async with"])
def test_a_signal_reaches_the_process(lab: Any, program: Any, way: str) -> None:
    """SIGTERM, once, whose handler decides; a web server stops then."""
    lab.produce("a")
    body = {
        "start": "app.start(); waits()",
        "with": "with app: waits()",
        "async with": "asyncio.run(entered())",
    }[way]
    started = program(
        f"""
        import asyncio
        came = threading.Event()
        def mine(*_):
            say("SIGTERM")
            came.set()
        signal.signal(signal.SIGTERM, mine)
        @app.handler("t")
        def handle(record):
            raise ValueError("no luck")
        def waits():
            while not came.wait(0.05):
                pass
            time.sleep(0.3)
        async def entered():
            async with app:
                await asyncio.to_thread(waits)
        try:
            {body}
            app.stop()
        except ehkafka.errors.HandlerFailedError:
            say("RAISED")
        """,
        on_end="signal",
    )
    assert started.wait() == 0, started.lines
    assert started.lines == ["SIGTERM", "RAISED"]


def test_run_raises_and_sends_no_signal(lab: Any) -> None:
    """Its caller gets the error in any case."""
    app = failing(lab, on_end="signal")
    lab.produce("a")
    came: list[int] = []
    before = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, lambda number, _frame: came.append(number))
    try:
        with pytest.raises(HandlerFailedError):
            app.run()
        time.sleep(0.05)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert came == []


def test_what_on_end_raises_is_reported(lab: Any, events: Any) -> None:
    """As any hook's."""

    def end(_error: Exception) -> None:
        raise ValueError("no alarm")

    lab.produce("a")
    app = lab.start(lambda _record: 1 / 0, on_end=end)
    wait_until(lambda: events.of(UserCodeFailed))
    assert events.of(UserCodeFailed)[0].where == "on_end"
    with pytest.raises(HandlerFailedError):
        app.stop()
