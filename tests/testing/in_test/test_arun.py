"""`ehkafka.testing.arun`: the same for a test on an event loop."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

import ehkafka
from ehkafka.testing import arun


def _app(**options: Any) -> ehkafka.App:
    return ehkafka.App(group="g", start="earliest", **options)


def test_an_app_runs_while_the_loop_goes_on() -> None:
    """What is sent is handled; another task of the loop is not held up by the waits."""
    app = _app()

    @app.handler("a", retry=ehkafka.Retry(attempts=2, first_s=600.0, max_s=600.0, jitter=0.0))
    async def handle(record: ehkafka.Record) -> None:
        if record.attempt == 1:
            raise ValueError("not yet")

    async def tick(gaps: list[float]) -> None:
        while True:
            began_s = time.monotonic()
            await asyncio.sleep(0.005)
            gaps.append(time.monotonic() - began_s)

    async def test() -> None:
        gaps: list[float] = []
        ticking = asyncio.create_task(tick(gaps))
        async with arun(app) as t:
            t.send("a", {"n": 1}, key="k")
            with pytest.raises(TimeoutError, match="key 'k' of handler handle"):
                await t.wait(timeout_s=0.6)
            await t.advance(601.0)
            await t.wait()
            assert [(one.json(), one.attempt) for one in t.handled] == [({"n": 1}, 2)]
        ticking.cancel()
        assert len(gaps) > 15  # a loop that is held up for 0.6 s has two or three
        assert app.state == "new"

    asyncio.run(test())


def test_a_cancelled_test_ends_its_app() -> None:
    """Nothing of it is left to run."""
    app = _app()
    app.handler("a")(lambda record: time.sleep(0.01))

    async def test(has_begun: asyncio.Event) -> None:
        async with arun(app) as t:
            t.send("a", "x")
            has_begun.set()
            await asyncio.sleep(60)

    async def cancels() -> None:
        has_begun = asyncio.Event()
        testing = asyncio.create_task(test(has_begun))
        await has_begun.wait()
        assert app.state == "running"
        testing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await testing
        assert app.state == "new"

    asyncio.run(cancels())
