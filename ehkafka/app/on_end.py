"""What an app that fails does to whoever entered it: `App(on_end=…)`.

`InThread` enters by `with`, `ByHand` by `start()`, and `lifespan.InTask` by `async with`. Each is given a
failure once, on the thread where it happened, and must return at once. A stop that somebody asked for is no
failure.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ehkafka.errors import ConfigurationError
from ehkafka.handlers.spec import is_async, must_be_callable
from ehkafka.wording.calling import must_take

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.errors import EhkafkaError

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
            "on_end: give a plain function: it is called beside what runs, and nobody would wait for an "
            "async def. Let it start a task, if the app is entered by `async with`."
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
