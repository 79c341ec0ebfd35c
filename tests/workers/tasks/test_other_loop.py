"""What an error adds that comes of an object of another event loop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ehkafka.workers.tasks.other_loop import explain_other_loop


def raised_by(use: Any) -> BaseException:
    """Return what `use` raises on a loop of its own."""
    with pytest.raises(RuntimeError) as raised:
        asyncio.run(use)
    return raised.value


async def held_lock() -> asyncio.Lock:
    """Return a lock that is bound to a loop, since a task waits for it."""
    lock = asyncio.Lock()
    await lock.acquire()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await lock.acquire()
    return lock


def asyncios_errors() -> list[BaseException]:
    """Return what asyncio itself raises."""
    other = asyncio.new_event_loop()
    future = other.create_future()
    lock = asyncio.run(held_lock())

    async def wait_for_it() -> None:
        await future

    found = [raised_by(wait_for_it()), raised_by(lock.acquire())]
    other.close()

    async def use_the_closed() -> None:
        other.call_soon(print)

    return [*found, raised_by(use_the_closed())]


@pytest.mark.parametrize(
    "error",
    [*asyncios_errors(), RuntimeError("Timeout context manager should be used inside a task")],
    ids=["future", "lock", "closed", "aiohttp"],
)
def test_the_error_keeps_its_words_and_says_what_to_do(error: BaseException) -> None:
    """Once, however often it is raised."""
    before = str(error)
    for _ in range(2):
        explain_other_loop(error, "store", is_callers=False)
    assert str(error).startswith(f"{before} (handler 'store' used an object of another event loop;")
    assert str(error).count("App(loop='caller')") == 1


def test_on_the_callers_loop_there_is_another_remedy() -> None:
    """It says where to open the object."""
    error = RuntimeError("<Lock> is bound to a different event loop")
    explain_other_loop(error, "store", is_callers=True)
    assert "open the object in the code with `async with app`" in str(error)


def test_an_error_that_a_client_has_wrapped_is_found() -> None:
    """The type that retries know stays; a text that is not the error's only argument gets a note."""

    class ClientError(Exception):
        def __str__(self) -> str:
            return "request failed"

    error = ClientError(503)
    error.__cause__ = RuntimeError("got Future <Future pending> attached to a different loop")
    explain_other_loop(error, "store", is_callers=False)
    assert str(error) == "request failed"
    assert "handler 'store'" in error.__notes__[0]


@pytest.mark.parametrize(
    "error", [RuntimeError("no luck"), ValueError("Event loop is closed"), KeyError("a")]
)
def test_other_errors_stay_as_they_are(error: BaseException) -> None:
    """Nothing is added."""
    before = error.args
    explain_other_loop(error, "store", is_callers=False)
    assert error.args == before
    assert not hasattr(error, "__notes__")


def test_an_error_whose_text_cannot_be_made_raises_nothing() -> None:
    """The worker that asks has a record in its hands."""

    class BrokenError(RuntimeError):
        def __str__(self) -> str:
            raise ValueError("no text")

    error = BrokenError("Event loop is closed")
    explain_other_loop(error, "store", is_callers=False)
    assert error.args == ("Event loop is closed",)
