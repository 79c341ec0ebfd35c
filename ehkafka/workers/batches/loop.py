"""The event loop on which the batches of an `async def` handler run.

Batches are few, so each keeps its worker thread while its coroutine runs, and all the rest (collecting,
results, the order of a stop) is as for plain functions. Started and closed by `BatchWorkers`; `run` is
called by its workers.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from ehkafka.settings.clock import REAL_CLOCK
from ehkafka.wording.live_stack import task_stack
from ehkafka.workers.loop_threads import LoopThreads
from ehkafka.workers.tasks.loop import new_loop, stopped_loop
from ehkafka.workers.tasks.other_loop import explain_other_loop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ehkafka.settings.clock import Clock

CLOSE_S = 1.0


class BatchLoop:
    """One loop on a daemon thread of its own."""

    def __init__(
        self, name: str, on_death: Callable[[BaseException], None], clock: Clock = REAL_CLOCK
    ) -> None:
        """`on_death` is called when the handler's own code has stopped the loop."""
        self._handler = name
        self._on_death = on_death
        self._clock = clock
        self._name = f"ehkafka-{name}-loop"
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._blocking = LoopThreads()

    def start(self) -> None:
        """Start the loop."""
        self._loop = new_loop(self._clock)
        self._blocking.attach(self._loop, self._name)
        self._thread = threading.Thread(target=self._main, args=(self._loop,), name=self._name, daemon=True)
        self._thread.start()

    def _main(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._loop is loop:
            error: BaseException = RuntimeError("Event loop stopped before its end.")
            try:
                loop.run_forever()
            except BaseException as raised:  # a SystemExit in a task that the handler left running
                error = raised
            if self._loop is loop:
                # And once more round: workers wait for batches that run there, and the stop for them.
                self._on_death(stopped_loop(self._handler, error) or error)

    def run(self, awaitable: Awaitable[Any]) -> Any:
        """Wait for the end of a coroutine; return what it returns and raise what it raises."""
        assert self._loop is not None
        result, error = asyncio.run_coroutine_threadsafe(_outcome(awaitable), self._loop).result()
        if error is not None:
            explain_other_loop(error, self._handler, is_callers=False)
            raise error
        return result

    def close(self) -> None:
        """End the loop, once no worker waits for it. A second call does nothing."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        self._loop = None
        asyncio.run_coroutine_threadsafe(_end_the_rest(), loop).result(CLOSE_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(CLOSE_S)
        if not thread.is_alive():
            loop.close()

    def is_on(self, thread: threading.Thread) -> bool:
        """Tell whether code on this thread runs in the loop, or was given away by it as a blocking call."""
        return thread is self._thread or self._blocking.owns(thread)

    def stacks(self) -> dict[str, str]:
        """Return where each running coroutine waits."""
        loop = self._loop
        if loop is None:
            return {}
        return {f"{self._name} {task.get_name()}": task_stack(task) for task in asyncio.all_tasks(loop)}


async def _outcome(awaitable: Awaitable[Any]) -> tuple[Any, BaseException | None]:
    """Hand back what was raised: a SystemExit would end the loop, and a cancellation lose its name."""
    try:
        return await awaitable, None
    except BaseException as error:  # handed to the worker, which raises it
        return None, error


async def _end_the_rest() -> None:
    """Cancel what the handler left running in the background, and let it hear of it."""
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    if rest:
        await asyncio.wait(rest, timeout=CLOSE_S / 2)
    await asyncio.get_running_loop().shutdown_asyncgens()
