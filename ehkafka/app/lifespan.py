"""An app in a task: started and stopped on a thread, so that the loop goes on, and undone when cancelled.

`App` calls `entered` and `left` on the loop's thread.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING

from ehkafka.app.entering import StartCaller
from ehkafka.errors import ConfigurationError
from ehkafka.workers.tasks.shared import SharedLoop

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.app.life import Life
    from ehkafka.run.runtime import Runtime


# Between two looks of a cancelled start for an async hook that it waits for: it may begin one meanwhile.
_INTERRUPT_S = 0.1


async def entered(life: Life, stop: Callable[[], None]) -> None:
    """Start the app, with this task inside of it."""
    loop = SharedLoop() if life.entrance.loop == "caller" else None
    made: list[Runtime] = []
    task = InTask(loop)

    def interrupt() -> None:
        for run in made:
            run.start_stop.cancel()

    try:
        await _start_unless_cancelled(
            lambda: life.start(lambda: task, loop, made=made.append),
            stop,
            interrupt,
        )
    except BaseException:
        task.let_go()
        raise
    task.is_inside = True
    life.entrance.changed(made[0])  # it may have failed before


async def left(life: Life, stop: Callable[[], None]) -> None:
    """Stop the app that this task is inside of; raise what ended it."""
    task = life.entrance.entered
    if not isinstance(task, InTask):
        raise ConfigurationError("The app was not entered by `async with`: write `async with app`.")
    task.leave()
    try:
        await _stop_to_the_end(stop)
    finally:
        task.let_go()
    # Another thread's `stop` may have raised it there, but this block was cut off by it.
    if task.is_interrupted and (failure := life.run.failure) is not None:
        raise failure


async def _start_unless_cancelled(
    start: Callable[[], None], stop: Callable[[], None], interrupt: Callable[[], None]
) -> None:
    """Run `start`; when the waiting task is cancelled, run `stop` too, and only then let the task end.

    A thread cannot be cancelled: it continues to start, and only this call can stop what it has started. But
    `interrupt` cancels the coroutine that it waits for, if there is one.
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
        while not starting.done():
            interrupt()
            await asyncio.wait([starting], timeout=_INTERRUPT_S)
        await _stop_to_the_end(stop)  # once more: the cancellation may have come just after the start
        raise


async def _stop_to_the_end(stop: Callable[[], None]) -> None:
    """Run `stop` and wait until it has returned. A cancellation of the task meanwhile counts afterwards.

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
    done: Future[None] = Future()
    context = contextvars.copy_context()

    def main() -> None:
        try:
            context.run(function)
        except BaseException as error:  # the task raises it
            done.set_exception(error)
        else:
            done.set_result(None)

    threading.Thread(target=main, name=name, daemon=True).start()
    return asyncio.wrap_future(done)


def _retrieve_error(done: asyncio.Future[None]) -> None:
    # No code handles the error of a cancelled start; asyncio would log it at some later time.
    if not done.cancelled():
        done.exception()


class InTask(StartCaller):
    """Who entered by `async with`: the task is cancelled, and its block raises the failure at its end."""

    def __init__(self, lent: SharedLoop | None) -> None:
        super().__init__()
        # Until the block begins: a cancellation before would be one of the start.
        self.is_inside = False
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        # What coroutines of the run are on, if that is this loop.
        self._lent = lent
        # Written on the loop.
        self.is_interrupted = False

    def interrupt(self) -> None:
        """Cancel the task, from the loop: never while it runs, so that the cancellation always arrives."""
        self._on_loop(self._cancel)

    def call(self, function: Callable[[], None]) -> None:
        """Call the user's function on the loop."""
        self._on_loop(function)

    def leave(self) -> None:
        """Leave the block, on the loop. What was cancelled from here counts no more; other requests do."""
        super().leave()
        if self.is_interrupted and self._task is asyncio.current_task() and self._task is not None:
            self._task.uncancel()

    def let_go(self) -> None:
        """Give the loop back, after the end."""
        if self._lent is not None:
            self._lent.release()

    def _cancel(self) -> None:
        if self.is_inside and self._task is not None:
            self.is_interrupted = True
            self._task.cancel("the app failed; the end of its block raises the error")

    def _on_loop(self, function: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # closed: the block has ended
            self._loop.call_soon_threadsafe(function)
