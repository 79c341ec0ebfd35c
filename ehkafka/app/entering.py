"""Who is inside of an app, and what its failure does to them: `App(loop=…, on_end=…)`.

`InThread` enters by `with`, `StartCaller` by `start()`, `lifespan.InTask` by `async with`. Each is given a
failure once, on the thread where it happened, and must return at once. A requested stop is no failure.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from ehkafka.errors import ConfigurationError
from ehkafka.wording.calling import is_async, must_be_callable, must_take, named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ehkafka.errors import EhkafkaError
    from ehkafka.run.run import Run
    from ehkafka.run.runtime import Runtime

LoopChoice = Literal["own", "caller"]
OnEnd: TypeAlias = "Literal['raise', 'signal'] | Callable[[EhkafkaError], object]"

_CALLERS = "App(loop='caller') runs its coroutines on the event loop that enters it"


class Entrance:
    """How one app may be entered, and the last one who did. Guarded by the lock of its `Life`."""

    def __init__(self, loop: Any, on_end: Any) -> None:
        """Raise `ConfigurationError` for what the app was given."""
        if loop not in get_args(LoopChoice):
            raise ConfigurationError(
                f"loop={loop!r:.80}: use 'own' if the app should make its own event loops, or 'caller' for "
                f"the event loop that enters `async with app`."
            )
        self.loop: LoopChoice = loop
        self.on_end = _checked_on_end(on_end)
        # None in `run`, which raises the failure itself.
        self.entered: StartCaller | None = None

    def refuse_without_loop(self, what: str) -> None:
        """Refuse to enter without the caller's loop where it is wanted. Raises `ConfigurationError`."""
        if self.loop == "caller":
            raise ConfigurationError(
                f"{_CALLERS}, but {what} has no event loop: write `async with app`, for example in the "
                f"lifespan of the web app. Or leave loop= out: then the app makes its own event loops."
            )

    def refuse_on_spark(self, hooks: Iterable[Callable[[], Any]]) -> None:
        """Refuse coroutines that would have no loop on Spark. Raises `ConfigurationError`."""
        if self.loop == "caller":
            raise ConfigurationError(
                f"{_CALLERS}, but on Spark handlers run in other processes: leave loop= out."
            )
        if (hook := next(filter(is_async, hooks), None)) is not None:
            raise ConfigurationError(
                f"{named(hook)} is an async def, but on Spark on_start and on_stop run on the driver "
                f"without an event loop: give plain functions."
            )

    def changed(self, run: Runtime) -> None:
        """Act on the first fatal error of a run, and on its end. Any thread; returns at once."""
        entered = self.entered
        if entered is None:
            return
        if run.failure is not None:
            entered.report(run.failure, self.on_end, lambda error: run.report("on_end", error))
        entered.wake()

    def wait(self, run: Run, timeout_s: float | None) -> bool:
        """Wait for the end of a run; inside `with` for another app's failure, too, which it raises."""
        if isinstance(entered := self.entered, InThread):
            ends_s = None if timeout_s is None else time.monotonic() + timeout_s
            waited = entered.wait(
                lambda: run.state == "stopped", lambda: None if ends_s is None else ends_s - time.monotonic()
            )
            if waited is not None:
                return waited
        return run.wait(timeout_s)


def _checked_on_end(choice: Any) -> OnEnd:
    """Return what was chosen. Raises `ConfigurationError`."""
    if choice in ("raise", "signal"):
        return choice  # type: ignore[no-any-return]
    if not callable(choice):
        raise ConfigurationError(
            f"on_end={choice!r:.80}: use 'raise', 'signal', or a function that takes the error."
        )
    if is_async(choice):
        raise ConfigurationError(
            "on_end cannot be an async def, because it is called while the app stops: give a plain "
            "function. With `async with app` that function can start a task."
        )
    must_be_callable(choice, "on_end")
    must_take(choice, ("error",), "on_end")
    return choice  # type: ignore[no-any-return]


class StartCaller:
    """Who called `start()`: its `stop()` raises the failure."""

    def __init__(self) -> None:
        # Cleared by the leaving thread before it waits for the end, which raises later failures.
        self.is_inside = True
        # Taken by the first report.
        self._once = threading.Lock()

    def report(
        self, error: EhkafkaError, on_end: OnEnd, report_error: Callable[[BaseException], None]
    ) -> None:
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
        """Have the failure raised in the block, where code waits."""

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


class InThread(StartCaller):
    """Who entered by `with`: a wait for this app, or another one around it, raises the failure."""

    def __init__(self, failure: Callable[[], EhkafkaError | None], on_end: OnEnd) -> None:
        super().__init__()
        self.failure = failure if on_end == "raise" else lambda: None
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
                if other is not self and (failure := other.failure()) is not None:
                    raise failure
            if is_done():
                return True
            left_s = remaining_s()
            if left_s is not None and left_s <= 0:
                return False
            # In slices, as `run` waits: signals are handled in between on every platform.
            self._changed.wait(0.5 if left_s is None else min(0.5, left_s))
