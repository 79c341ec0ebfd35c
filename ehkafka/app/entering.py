"""Entering an app, by `with`, `async with` or `start()`: the part of `App` that knows who is inside.

Who entered hears of the app's failure (`on_end`), and with `loop="caller"` lends it the event loop.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Literal, get_args

from ehkafka.app.on_end import ByHand, InThread, checked_on_end
from ehkafka.errors import ConfigurationError
from ehkafka.handlers.spec import is_async, named

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from ehkafka.app.on_end import OnEnd
    from ehkafka.errors import EhkafkaError
    from ehkafka.run.runtime import Runtime
    from ehkafka.settings.clock import Clock
    from ehkafka.workers.tasks.shared import SharedLoop

LoopChoice = Literal["own", "caller"]

_CALLERS = "App(loop='caller') runs its coroutines on the event loop that enters it"


class Entering:
    """Who is inside, and on which loop coroutines run."""

    _on_start: list[Callable[[], Any]]
    _on_stop: list[Callable[[], Any]]
    _runtime: Runtime | None
    _loop: LoopChoice
    _clock: Clock
    _on_end: OnEnd
    # The last one who entered; None in `run`, which raises the failure itself. Under `App._lock`.
    _entered: ByHand | None = None
    # All coroutines of the run are on it; None where each async handler has a loop of its own. Likewise.
    _shared_loop: SharedLoop | None = None

    def _take_ending(self, loop: Any, on_end: Any) -> None:
        """Take what the app was made with. Raises `ConfigurationError`."""
        if loop not in get_args(LoopChoice):
            raise ConfigurationError(
                f"loop={loop!r:.80}: use 'own' for event loops of the app's own, or 'caller' for the one "
                "that enters the app by `async with app`."
            )
        self._loop = loop
        self._on_end = checked_on_end(on_end)

    def start(self) -> None:
        """Reach the broker, start the threads, subscribe; returns at once. Raises what is wrong."""
        self._refuse_without_loop("start()")
        self._start(ByHand)

    def stop(self) -> None:
        """Stop and wait for the end."""
        raise NotImplementedError

    def _start(self, enter: Callable[[], ByHand | None], loop: SharedLoop | None = None) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._refuse_without_loop("`with app`")
        self._start(lambda: InThread(self._ended_by, self._on_end))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._entered is not None:
            self._entered.leave()
        self.stop()

    async def __aenter__(self) -> Self:
        # Only programs with a loop of their own need asyncio here.
        from ehkafka.app.lifespan import InTask, start_unless_cancelled  # noqa: PLC0415
        from ehkafka.workers.tasks.shared import SharedLoop  # noqa: PLC0415

        loop = SharedLoop() if self._loop == "caller" else None
        entered = InTask(loop)
        try:
            await start_unless_cancelled(
                lambda: self._start(lambda: entered, loop), self.stop, self._cancel_on_start
            )
        except BaseException:
            entered.let_go()
            raise
        entered.is_inside = True
        assert self._runtime is not None
        self._changed(self._runtime)  # it may have failed before
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        from ehkafka.app.lifespan import InTask, stop_to_the_end  # noqa: PLC0415 - likewise

        entered = self._entered
        if not isinstance(entered, InTask):
            raise ConfigurationError("The app was not entered by `async with`: write `async with app`.")
        entered.leave()
        try:
            await stop_to_the_end(self.stop)
        finally:
            entered.let_go()
        # Another thread's `stop` may have raised it there, but this block was cut off by it.
        if entered.is_interrupted and (failure := self._ended_by()) is not None:
            raise failure

    def _raise_here(self) -> None:
        """Let a call of `stop` raise what comes from now on."""
        if self._entered is not None:
            self._entered.is_inside = False

    def _ended_by(self) -> EhkafkaError | None:
        return None if self._runtime is None else self._runtime.failure

    def _changed(self, runtime: Runtime) -> None:
        """Act on the first fatal error of a run, and on its end. Any thread; returns at once."""
        entered = self._entered
        if entered is None:
            return
        if runtime.failure is not None:
            entered.report(runtime.failure, self._on_end, runtime.report_on_end)
        entered.wake()

    def _wait_inside(self, runtime: Runtime, timeout_s: float | None) -> bool:
        """Wait for the end of a run; inside `with` for another app's failure, too, which it raises."""
        if isinstance(entered := self._entered, InThread):
            ends_s = None if timeout_s is None else time.monotonic() + timeout_s
            waited = entered.wait(
                lambda: runtime.is_done, lambda: None if ends_s is None else ends_s - time.monotonic()
            )
            if waited is not None:
                return waited
        return runtime.wait(timeout_s)

    @property
    def is_on_callers_loop(self) -> bool:
        """True where coroutines run on the loop that enters the app: `App(loop="caller")`."""
        return self._loop == "caller"

    # --- the loop ----------------------------------------------------------------------------------

    def _refuse_without_loop(self, what: str) -> None:
        if self._loop == "caller":
            raise ConfigurationError(
                f"{_CALLERS}, and {what} enters it without one: write `async with app`, in the lifespan of "
                "the web app for example. Or leave loop= out: then it has event loops of its own."
            )

    def _refuse_on_spark(self) -> None:
        if self._loop == "caller":
            raise ConfigurationError(
                f"{_CALLERS}, and on Spark handlers run in other processes: leave loop= out."
            )
        if (hook := next(filter(is_async, (*self._on_start, *self._on_stop)), None)) is not None:
            raise ConfigurationError(
                f"on_start and on_stop: {named(hook)} is an async def, but on Spark they run on the driver, "
                "where no event loop runs: give plain functions."
            )

    def _open_loop(self, loop: SharedLoop | None) -> SharedLoop | None:
        """Return the loop that all coroutines of a run share: the caller's, or one for its async hooks."""
        if loop is None and any(map(is_async, (*self._on_start, *self._on_stop))):
            from ehkafka.workers.tasks.shared import AppLoop  # noqa: PLC0415 - asyncio

            loop = AppLoop(self._clock)
            loop.open()
        self._shared_loop = loop
        return loop

    def _close_loop(self) -> None:
        loop, self._shared_loop = self._shared_loop, None
        if loop is not None:
            loop.close()

    def _call_on_start(self, undo: ExitStack) -> None:
        """Run the on_start functions; from then on `undo` runs the on_stop functions."""
        assert self._runtime is not None
        self._runtime.messages.open()
        undo.callback(self._close_producer)
        for function in self._on_start:
            self._call_hook(function, "on_start")
        undo.callback(self._call_on_stop)

    def _call_on_stop(self) -> None:
        # Last registered first, and each one: what one of them raises must not leave the others' pools open.
        with ExitStack() as functions:
            functions.callback(self._close_producer)
            for function in self._on_stop:
                functions.callback(self._call_hook, function, "on_stop")

    def _close_producer(self) -> None:
        """Deliver the last messages of `app.producer`."""
        raise NotImplementedError

    def _call_hook(self, function: Callable[[], Any], name: str) -> None:
        """Call a function of `on_start` or `on_stop`: on this thread, or on the loop if it is async."""
        if not is_async(function):
            function()
            return
        assert self._shared_loop is not None
        self._shared_loop.run(function(), name)

    def _cancel_on_start(self) -> None:
        if (loop := self._shared_loop) is not None:
            loop.cancel("on_start")

    def _is_on_loop(self, thread: threading.Thread) -> bool:
        loop = self._shared_loop
        return loop is not None and loop.owns(thread)
