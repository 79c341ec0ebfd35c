"""The hook thread: runs the user's partition hooks and class handlers' `open` and `close`, in order.

The poll thread must never wait for user code (a revoke within its budget aside), so it only submits.
"""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class HookThread:
    """A daemon thread that runs calls one after another; started by the first call."""

    def __init__(self, on_error: Callable[[str, BaseException], None]) -> None:
        """`on_error` gets a call's name and what it raised, on the hook thread."""
        self._on_error = on_error
        self._calls: queue.SimpleQueue[tuple[str, Callable[[], None], threading.Event] | None] = (
            queue.SimpleQueue()
        )
        self._thread: threading.Thread | None = None
        self._closed = False
        # The call that runs, for `close`; written by the thread itself.
        self._running = "a hook"

    def submit(self, name: str, call: Callable[[], None]) -> threading.Event:
        """Queue a call; the event is set when it has returned or raised."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._main, name="ehkafka-hooks", daemon=True)
            self._thread.start()
        done = threading.Event()
        self._calls.put((name, call, done))
        return done

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether it is this one."""
        return thread is self._thread

    def close(self, timeout_s: float) -> list[str]:
        """Let the thread leave after what is queued; return the call that still runs after `timeout_s`.

        May be called again to wait longer.
        """
        if self._thread is None:
            return []
        if not self._closed:
            self._closed = True
            self._calls.put(None)
        self._thread.join(timeout_s)
        return [self._running] if self._thread.is_alive() else []

    def _main(self) -> None:
        while (item := self._calls.get()) is not None:
            name, call, done = item
            self._running = name
            try:
                call()
            # sys.exit() too: without this thread no later assignment would ever open.
            except BaseException as error:
                self._on_error(name, error)
            finally:
                done.set()
