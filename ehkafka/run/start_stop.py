"""The app's `on_start` and `on_stop` functions, around a run, and the loop of those that are async.

On the thread that starts or stops the app; an async function runs on the loop.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ehkafka.wording.calling import is_async

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.outputs.own_producer import OwnProducer
    from ehkafka.run.ending import RunEnding
    from ehkafka.run.options import AppOptions

# What the last messages get at the end, even where the stop's time is over.
LAST_MESSAGES_S = 0.5


def with_loop(app: AppOptions) -> AppOptions:
    """Return it with the loop that coroutines share: the caller's, or one for the async hooks, if any."""
    if app.shared_loop is not None or not any(map(is_async, (*app.on_start, *app.on_stop))):
        return app
    from ehkafka.workers.tasks.shared import AppLoop  # noqa: PLC0415 - asyncio

    return replace(app, shared_loop=AppLoop(app.clock))


class StartStop:
    """Runs the functions, and has `app.producer` send from the first to the last of them."""

    def __init__(self, app: AppOptions, messages: OwnProducer, ending: RunEnding) -> None:
        self._app = app
        self._messages = messages
        self._ending = ending
        # Only the thread that is inside of the start compares itself with it.
        self._starter: threading.Thread | None = None

    def begin(self, undo: ExitStack) -> None:
        """Open the loop; `undo` closes it."""
        self._starter = threading.current_thread()
        undo.callback(self._close_loop)
        if (loop := self._app.shared_loop) is not None:
            loop.open()

    def start(self, undo: ExitStack) -> None:
        """Run the on_start functions; from then on `undo` runs the on_stop functions."""
        self._messages.open()
        undo.callback(self._close_own_producer)
        for function in self._app.on_start:
            self._call(function, "on_start")
        undo.callback(self._call_on_stop)

    def started(self) -> None:
        """Note that the start is over."""
        self._starter = None

    def stop(self) -> None:
        """Run the on_stop functions, deliver the last messages and close the loop."""
        try:
            self._call_on_stop()
        finally:
            self._close_loop()

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread starts the app or runs its coroutines. Of the present thread only."""
        loop = self._app.shared_loop
        return thread is self._starter or (loop is not None and loop.owns(thread))

    def cancel(self) -> None:
        """Cancel the coroutine of on_start that the start waits for. Any thread."""
        if (loop := self._app.shared_loop) is not None:
            loop.cancel("on_start")

    def _call_on_stop(self) -> None:
        # Last registered first, and each one: what one of them raises must not leave the others' pools open.
        with ExitStack() as functions:
            functions.callback(self._close_own_producer)
            for function in self._app.on_stop:
                functions.callback(self._call, function, "on_stop")

    def _call(self, function: Callable[[], Any], name: str) -> None:
        if not is_async(function):
            function()
            return
        assert self._app.shared_loop is not None
        self._app.shared_loop.run(function(), name)

    def _close_own_producer(self) -> None:
        """Deliver the last messages, within the stop's time. The on_stop functions have returned by then."""
        if self._messages.is_open:
            left_s = self._ending.request_stop("the app ends").deadline_s - self._app.clock.now_s()
            self._messages.close(max(LAST_MESSAGES_S, left_s))

    def _close_loop(self) -> None:
        if (loop := self._app.shared_loop) is not None:
            loop.close()
