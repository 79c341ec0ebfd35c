"""A loop that others end while an app runs on it: the app ends with it, and no record is lost."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import AsyncExitStack
from typing import Any

import pytest

import ehkafka
from ehkafka.errors import ConfigurationError, HandlerFailedError
from tests.contract.in_loop import Client, failing, is_at_once, until


@pytest.mark.parametrize("kind", ["handler", "batch_handler"])
@pytest.mark.parametrize("way", ["closed", "cancelled"])
def test_a_loop_that_ends_while_the_app_runs_ends_it_and_no_record_is_lost(
    lab: Any, way: str, kind: str
) -> None:
    """Not even with `Skip()`, nor where a handler makes a failure of its cancellation; the stop is quick."""
    began = threading.Event()
    app = lab.app(loop="caller", stop_s=20.0, on_end=lambda _error: None)

    async def handle(_given: Any) -> None:
        began.set()
        try:
            await asyncio.sleep(60.0)
        except asyncio.CancelledError:
            raise ValueError("cut off") from None

    getattr(app, kind)("t", on_failure=ehkafka.Skip(), retry=ehkafka.Retry(attempts=1))(handle)
    lab.produce("a a b")
    loop = asyncio.new_event_loop()

    async def enter() -> None:
        await app.__aenter__()
        await until(began.is_set)
        if way == "cancelled":
            # As `asyncio.run` does with all that is left when its coroutine has ended.
            rest = asyncio.all_tasks() - {asyncio.current_task()}
            # Those that run records first: there it is not known yet whether it is the loop's end.
            for task in sorted(rest, key=lambda task: task.get_name().startswith("ehkafka-")):
                task.cancel()
            await asyncio.wait(rest)

    loop.run_until_complete(enter())
    began_s = time.monotonic()
    if way == "closed":
        loop.close()
    assert app.wait(10.0)
    assert time.monotonic() - began_s < 5.0
    with pytest.raises(ehkafka.errors.HandlerFailedError, match=r"The event loop that entered the app was"):
        app.stop()
    if way == "cancelled":
        loop.close()
    assert lab.committed() in (None, 0)


def test_the_end_of_asyncio_run_under_the_app_is_named(lab: Any) -> None:
    """A task that is never awaited has entered it: the run ends with the loop, and leaves nothing behind."""
    began = threading.Event()
    app = lab.app(loop="caller")

    @app.handler("t", on_failure=ehkafka.Skip())
    async def handle(_record: Any) -> None:
        began.set()
        await asyncio.sleep(60.0)

    lab.produce("a")
    tasks: list[Any] = []

    async def live() -> None:
        async with app:
            await asyncio.sleep(60.0)

    async def main() -> None:
        tasks.append(asyncio.create_task(live()))
        await until(began.is_set)

    asyncio.run(main())
    assert app.state == "stopped"
    with pytest.raises(ehkafka.errors.HandlerFailedError, match="await the task that contains the block"):
        tasks[0].result()
    assert lab.committed() in (None, 0)


# --- two apps ---


@pytest.mark.parametrize("dies", ["first", "second", "both"])
def test_the_second_of_two_apps_that_dies_is_noticed_at_once(lab: Any, dies: str) -> None:
    """In `async with a, b` whichever it is; the other one stops in good order, no cancellation is left."""
    lab.judged = False  # two groups
    a, b = (
        failing(lab, topic, group=group)
        if dies in (name, "both")
        else lab.app(lambda _record: None, topic, group=group)
        for topic, group, name in (("t", "a", "first"), ("u", "b", "second"))
    )
    lab.produce("a")
    lab.produce("a", topic="u")

    async def main() -> None:
        began_s = time.monotonic()
        with pytest.raises(HandlerFailedError, match="no luck with"):
            async with a, b:
                await asyncio.sleep(30.0)
        assert is_at_once(began_s)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        assert (a.state, b.state) == ("stopped", "stopped")

    asyncio.run(main())


@pytest.mark.parametrize("dies", ["first", "second"])
@pytest.mark.parametrize("waits_for", ["first", "second"])
def test_a_wait_for_one_of_two_apps_notices_both(lab: Any, dies: str, waits_for: str) -> None:
    """In `with a, b:` a wait for either ends when the other one has failed."""
    lab.judged = False  # two groups
    apps = {
        name: failing(lab, topic, group=name)
        if name == dies
        else lab.app(lambda _record: None, topic, group=name)
        for name, topic in (("first", "t"), ("second", "u"))
    }
    lab.produce("a")
    lab.produce("a", topic="u")
    began_s = time.monotonic()
    with pytest.raises(HandlerFailedError, match="no luck with"), apps["first"], apps["second"]:
        assert apps[waits_for].wait(30.0) is True
    assert is_at_once(began_s)
    assert {app.state for app in apps.values()} == {"stopped"}


def test_a_wait_outside_of_the_block_is_the_apps_own(lab: Any) -> None:
    """Another thread waits for one app, and is not bothered by others; time-outs are kept."""
    lab.judged = False  # two groups
    a, b = lab.app(lambda _record: None, "t", group="a"), failing(lab, "u", group="b")
    answers: list[bool] = []
    with pytest.raises(HandlerFailedError), a, b:  # noqa: PT012 - the block is tested
        assert a.wait(0.1) is False
        waiting = threading.Thread(target=lambda: answers.append(a.wait(1.0)))
        waiting.start()
        lab.produce("a", topic="u")
        waiting.join(10.0)
        a.wait(10.0)
    assert answers == [False]


def test_apps_in_an_exit_stack_are_noticed_as_well(lab: Any) -> None:
    """Entered one by one, left in the other order."""
    lab.judged = False  # two groups
    a, b = lab.app(lambda _record: None, "t", group="a"), failing(lab, "u", group="b")
    lab.produce("a", topic="u")

    async def main() -> None:
        async with AsyncExitStack() as stack:
            for app in (a, b):
                await stack.enter_async_context(app)
            await asyncio.sleep(30.0)

    with pytest.raises(HandlerFailedError):
        asyncio.run(main())


# --- async hooks ---


async def nothing(_record: Any) -> None:
    """Handle a record."""


def test_async_hooks_without_the_callers_loop_share_one_with_the_handlers(lab: Any) -> None:
    """What `on_start` opens serves all async handlers, also of an app that no loop has entered."""
    threads: set[str] = set()
    app = lab.app()
    clients: list[Client] = []

    @app.on_start
    async def opened() -> None:
        clients.append(Client())

    @app.handler("t")
    async def one(record: Any) -> None:
        threads.add(threading.current_thread().name)
        await clients[0].send(record.offset())

    @app.handler("u")
    async def other(record: Any) -> None:
        threads.add(threading.current_thread().name)
        await clients[0].send(100 + record.offset())

    @app.on_stop
    async def closed() -> None:
        await clients[0].send(-2)

    lab.produce("a b")
    lab.produce("a", topic="u")
    with app:
        deadline_s = time.monotonic() + 10.0
        while len(clients[0].sent) < 3 and time.monotonic() < deadline_s:
            time.sleep(0.01)
    assert sorted(clients[0].sent) == [-2, 0, 1, 100]
    assert threads == {"ehkafka-app-loop"}
    assert not [thread for thread in threading.enumerate() if thread.name in threads]


def test_async_hooks_raise_as_others_do(lab: Any) -> None:
    """What on_start raises is the start's error, and on_stop's the stop's; the loop is gone."""
    app = lab.app(nothing)

    @app.on_start
    async def opened() -> None:
        raise ConnectionError("no pool")

    with pytest.raises(ConnectionError, match="no pool"):
        app.start()
    assert app.state == "stopped"

    other = lab.app(nothing)

    @other.on_stop
    async def closed() -> None:
        raise ConnectionError("no goodbye")

    other.start()
    with pytest.raises(ConnectionError, match="no goodbye"):
        other.stop()
    assert "ehkafka-app-loop" not in [thread.name for thread in threading.enumerate()]


@pytest.mark.parametrize("choice", ["own", "caller"])
def test_a_cancelled_start_cancels_the_hook_that_it_waits_for(lab: Any, choice: Any) -> None:
    """What it waits for may never come; it may clean up in peace, and then nothing of the app is left."""
    app = lab.app(nothing, loop=choice)
    has_begun = threading.Event()
    seen: list[str] = []

    @app.on_start
    async def opened() -> None:
        has_begun.set()
        try:
            await asyncio.sleep(600.0)
        finally:
            await asyncio.sleep(0.5)
            seen.append("cleaned up")

    async def main() -> None:
        async with app:
            seen.append("entered")

    async def test() -> None:
        entering = asyncio.create_task(main())
        await asyncio.to_thread(has_begun.wait, 10.0)
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(entering, 15.0)

    asyncio.run(test())
    assert seen == ["cleaned up"]
    assert app.state == "stopped"


def test_an_app_is_left_by_who_has_entered_it(lab: Any) -> None:
    """In words, for who calls the way out by hand."""
    app = lab.app(nothing)
    with pytest.raises(ConfigurationError, match="was not entered by `async with`"):
        asyncio.run(app.__aexit__(None, None, None))


def test_async_hooks_are_refused_on_spark(lab: Any) -> None:
    """There they run on the driver, which has no loop."""
    app = lab.app(nothing)
    app.on_start(lambda: None)

    @app.on_stop
    async def closed() -> None:
        """Close a pool."""

    with pytest.raises(ehkafka.errors.ConfigurationError, match="closed is an async def, but on Spark"):
        app.run_on_spark(None)
