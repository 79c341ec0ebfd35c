"""The threads that a handler's event loop gives blocking calls to: `asyncio.to_thread` and the like.

What runs there is the handler's code as much as what runs on the loop. Attached by the loop's own thread.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    import asyncio


class LoopThreads:
    """Knows the threads of one loop's default executor, which are made when they are needed."""

    def __init__(self) -> None:
        # Each thread adds itself, once, before its first call.
        self._threads: WeakSet[threading.Thread] = WeakSet()

    def attach(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        """Give the loop its executor; the loop ends it."""
        loop.set_default_executor(
            ThreadPoolExecutor(thread_name_prefix=f"{name}-to-thread", initializer=self._note)
        )

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is one of these."""
        return thread in self._threads

    def _note(self) -> None:
        self._threads.add(threading.current_thread())
