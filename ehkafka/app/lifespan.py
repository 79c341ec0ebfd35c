"""Starting and stopping from an event loop: on a thread, so that the loop goes on, and undone when cancelled.

Called by `App` on the loop's thread.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


async def start_unless_cancelled(start: Callable[[], None], stop: Callable[[], None]) -> None:
    """Run `start`; when the waiting task is cancelled, run `stop` too, and only then let the task end.

    A thread cannot be cancelled: it goes on to start, and nobody else would stop what it has started.
    """
    cancelled = threading.Event()

    def start_and_perhaps_stop() -> None:
        start()
        if cancelled.is_set():
            stop()

    starting = _on_thread(start_and_perhaps_stop, "ehkafka-start")
    try:
        await asyncio.shield(starting)
    except asyncio.CancelledError:
        cancelled.set()
        starting.add_done_callback(_retrieve_error)
        await asyncio.wait([starting])
        await stop_to_the_end(stop)  # once more: the cancellation may have come just after the start
        raise


async def stop_to_the_end(stop: Callable[[], None]) -> None:
    """Run `stop` and wait until it has returned, whoever cancels the task meanwhile: that counts afterwards.

    Else the loop might end while handlers run on it. `stop` has a time-out of its own. What it raises comes
    first; a cancellation that it covers is still counted by the task, as `asyncio.TaskGroup` has it.
    """
    stopping = _on_thread(stop, "ehkafka-stop")
    cancelled: asyncio.CancelledError | None = None
    while not stopping.done():
        try:
            await asyncio.wait([stopping])
        except asyncio.CancelledError as error:
            cancelled = error
    await stopping
    if cancelled is not None:
        raise cancelled


def _on_thread(function: Callable[[], None], name: str) -> asyncio.Future[None]:
    """Call it on a thread of its own: those of the loop's pool may all wait for handlers.

    A future and no task: the end of an event loop cancels all tasks.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    context = contextvars.copy_context()

    def answer(error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    def main() -> None:
        error: BaseException | None = None
        try:
            context.run(function)
        except BaseException as raised:  # the task raises it
            error = raised
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(answer, error)

    threading.Thread(target=main, name=name, daemon=True).start()
    return done


def _retrieve_error(done: asyncio.Future[None]) -> None:
    # What a cancelled start raised is nobody's to handle; asyncio would complain of it at some later time.
    if not done.cancelled():
        done.exception()
