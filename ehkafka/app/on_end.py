"""What an app that fails does to whoever entered it: `App(on_end=…)`.

`InTask` is entered by `async with`, `InThread` by `with`, `ByHand` by `start()`. Each hears of a failure once,
on the thread where it happened, and must return at once. A stop that somebody asked for is no failure.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ehkafka.errors import ConfigurationError
from ehkafka.handlers.spec import is_async, must_be_callable
from ehkafka.wording.calling import must_take

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.errors import EhkafkaError
    from ehkafka.workers.tasks.shared import SharedLoop

OnEnd: TypeAlias = "Literal['raise', 'signal'] | Callable[[EhkafkaError], object]"


def checked_on_end(choice: Any) -> OnEnd:
    """Return what was chosen. Raises `ConfigurationError`."""
    if choice in ("raise", "signal"):
        return choice  # type: ignore[no-any-return]
    if not callable(choice):
        raise ConfigurationError(
            f"on_end={choice!r:.80}: use 'raise', 'signal', or a function that takes the error."
        )
    if is_async(choice):
        raise ConfigurationError(
            "on_end: give a plain function: it is called beside what runs, and nobody would wait for an async "
            "def. Let it start a task, if the app is entered by `async with`."
        )
    must_be_callable(choice, "on_end")
    must_take(choice, ("error",), "on_end")
    return choice  # type: ignore[no-any-return]


class ByHand:
    """Who called `start()`: its `stop()` raises the failure."""

    def __init__(self) -> None:
        # Cleared by whoever leaves, before it waits for the end: that raises what comes from then on.
        self.is_inside = True
        # Taken by the first report.
        self._once = threading.Lock()

    def report(self, error: EhkafkaError, on_end: OnEnd, report_error: Callable[[BaseException], None]) -> None:
        """Act on the app's failure. `report_error` hears what the user's function raises."""
        if not self.is_inside or not self._once.acquire(blocking=False):
            return
        if on_end == "raise":
            self.interrupt()
        elif on_end == "signal":
            os.kill(os.getpid(), signal.SIGTERM)
        elif callable(on_end):
            function = on_end

            def call() -> None:
                try:
                    function(error)
                except BaseException as raised:  # reported, like any hook's
                    report_error(raised)

            self.call(call)

    def interrupt(self) -> None:
        """Have the failure raised where somebody waits inside."""

    def call(self, function: Callable[[], None]) -> None:
        """Call the user's function where it may take its time."""
        threading.Thread(target=function, name="ehkafka-on-end", daemon=True).start()

    def wake(self) -> None:
        """Hear that the app has failed or ended."""

    def leave(self) -> None:
        """Leave the block."""
        self.is_inside = False


class _Entered(threading.local):
    """The apps that the present thread is in by `with`, and what wakes it while it waits for one of them."""

    def __init__(self) -> None:
        self.here: list[InThread] = []
        self.changed = threading.Event()


_entered = _Entered()


class InThread(ByHand):
    """Who entered by `with`: a wait for this app, or another one around it, raises the failure."""

    def __init__(self, failure: Callable[[], EhkafkaError | None], on_end: OnEnd) -> None:
        super().__init__()
        self._failure = failure if on_end == "raise" else lambda: None
        self._here, self._changed = _entered.here, _entered.changed
        self._here.append(self)

    def wake(self) -> None:
        """Wake the thread if it waits for any of its apps."""
        self._changed.set()

    def leave(self) -> None:
        """Leave the block."""
        super().leave()
        self._here.remove(self)

    def wait(self, is_done: Callable[[], bool], remaining_s: Callable[[], float | None]) -> bool | None:
        """Wait until this app has ended; None on a thread that is not in it. Raises another app's failure."""
        if _entered.here is not self._here:
            return None
        while True:
            self._changed.clear()
            for other in self._here:
                if other is not self and (failure := other._failure()) is not None:
                    raise failure
            if is_done():
                return True
            left_s = remaining_s()
            if left_s is not None and left_s <= 0:
                return False
            # In slices, as `run` waits: signals are handled in between on every platform.
            self._changed.wait(0.5 if left_s is None else min(0.5, left_s))


class InTask(ByHand):
    """Who entered by `async with`: the task is cancelled, and its block raises the failure at its end."""

    def __init__(self, lent: SharedLoop | None) -> None:
        super().__init__()
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
        with suppress(RuntimeError):  # closed: nobody is left in the block
            self._loop.call_soon_threadsafe(function)
