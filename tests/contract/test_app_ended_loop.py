"""A loop that others end while an app runs on it: the app ends with it, and no record is lost."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

import ehkafka
from tests.contract.in_loop import until


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
    """A task that nobody awaits has entered it: the run ends with the loop, and leaves nothing behind."""
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
    with pytest.raises(ehkafka.errors.HandlerFailedError, match="await the task that is in it"):
        tasks[0].result()
    assert lab.committed() in (None, 0)
