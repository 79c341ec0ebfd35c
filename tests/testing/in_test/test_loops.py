"""Apps in a test by the loop of their coroutines, and by what their failure does outside of a test."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import ehkafka
import ehkafka.testing
from ehkafka.errors import ConfigurationError, HandlerFailedError


def make_app(**options: Any) -> ehkafka.App:
    """Make an app without a broker."""
    return ehkafka.App(group="g", start="earliest", **options)


def test_an_app_of_the_callers_loop_runs_on_the_tests() -> None:
    """With what the test has opened there; without a loop it is refused, with the way that works."""
    app = make_app(loop="caller")
    clients: list[Any] = []

    @app.handler("readings")
    async def handle(_record: ehkafka.Record) -> None:
        await clients[0].wait()

    with pytest.raises(ConfigurationError, match=r"arun\(app\)"), ehkafka.testing.run(app):
        pass

    async def main() -> None:
        async with ehkafka.testing.arun(app) as t:
            clients.append(asyncio.Event())
            t.send("readings", key="a", value={})
            asyncio.get_running_loop().call_later(0.05, clients[0].set)
            await t.wait()
            assert len(t.handled) == 1

    asyncio.run(main())


@pytest.mark.parametrize("on_end", ["raise", "signal"])
def test_what_ends_an_app_is_the_tests_to_raise(on_end: Any) -> None:
    """No signal ends the tests, and no task of theirs is cancelled."""
    app = make_app(loop="caller", on_end=on_end)

    @app.handler("readings")
    async def handle(_record: ehkafka.Record) -> None:
        raise ValueError("no luck")

    async def main() -> None:
        with pytest.raises(HandlerFailedError, match="no luck"):  # noqa: PT012 - the block is tested
            async with ehkafka.testing.arun(app) as t:
                t.send("readings", key="a", value={})
                await t.wait()
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {task}

    asyncio.run(main())


def test_the_loop_of_async_hooks_goes_by_the_tests_clock() -> None:
    """As each handler's own does."""
    app = make_app()

    @app.on_start
    async def opened() -> None:
        """Open a pool."""

    @app.handler("readings")
    async def handle(_record: ehkafka.Record) -> None:
        await asyncio.sleep(3600.0)

    with ehkafka.testing.run(app) as t:
        t.send("readings", key="a", value={})
        t.advance(3601.0)
        t.wait()
        assert len(t.handled) == 1
