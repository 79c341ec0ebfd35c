"""Two apps in one block: whichever fails is noticed at once, and the other one stops in good order."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import AsyncExitStack
from typing import Any

import pytest

from ehkafka.errors import HandlerFailedError
from tests.contract.in_loop import failing, is_at_once


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
