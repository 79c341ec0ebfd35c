"""Starting from an event loop: in a thread, so that the loop goes on, and undone when the task is cancelled.

Called by `App` on the loop's thread; `start` and `stop` run on a thread of the loop's default pool.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
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

    # A future of the pool and no task: the end of an event loop cancels all tasks.
    loop = asyncio.get_running_loop()
    starting = loop.run_in_executor(None, contextvars.copy_context().run, start_and_perhaps_stop)
    try:
        await asyncio.shield(starting)
    except asyncio.CancelledError:
        cancelled.set()
        starting.add_done_callback(_retrieve_error)
        await asyncio.wait([starting])
        await asyncio.to_thread(stop)  # once more: the cancellation may have come just after the start
        raise


def _retrieve_error(done: asyncio.Future[None]) -> None:
    # What a cancelled start raised is nobody's to handle; asyncio would complain of it at some later time.
    if not done.cancelled():
        done.exception()
