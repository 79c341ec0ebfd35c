"""`async def` for `on_start` and `on_stop`: on which loop they run, and what they raise."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

import ehkafka
from ehkafka.errors import ConfigurationError
from tests.contract.in_loop import Client


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
