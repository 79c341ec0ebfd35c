"""The event loop that coroutines of one run are on: the caller's, or one that the app has made for them.

Pools and hooks are its guests: they put tasks on it and never end it, block it or wait for it on its own
thread. A loop of the app's own is a caller's loop on a thread of ours, which its owner opens and closes.
"""

from __future__ import annotations

import asyncio
import importlib
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

from ehkafka.errors import HandlerFailedError, describe
from ehkafka.settings.clock import REAL_CLOCK
from ehkafka.wording.error_stack import place_of
from ehkafka.wording.live_stack import task_stack

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ehkafka.settings.clock import Clock

# Between two looks of a waiting thread whether the loop is still there.
CHECK_S = 0.2
CLOSE_S = 1.0

# The run's loop, where code runs that the run has called there, and in what that started or gave to a thread.
_inside: ContextVar[SharedLoop | None] = ContextVar("ehkafka_inside", default=None)


class SharedLoop:
    """The caller's loop: the one that runs where this is made.

    A *sentinel* task waits there for the run's end. Code that ends a loop cancels all of its tasks first and
    lets them end next, so the sentinel tells a loop's end from the cancellation of one call.
    """

    is_callers = True
    loop: asyncio.AbstractEventLoop
    thread: threading.Thread

    def __init__(self) -> None:
        """Call it on the loop's thread; the context of this moment is that of the run's coroutines."""
        self.loop = asyncio.get_running_loop()
        self.thread = threading.current_thread()
        self._context = copy_context()
        self._context.run(_inside.set, self)
        # What threads wait for. Written on the loop, others read a copy.
        self._calls: dict[asyncio.Task[Any], str] = {}
        # Set on the loop by `release`.
        self._is_over = asyncio.Event()
        self._sentinel = self.loop.create_task(self._wait(), name="ehkafka-sentinel")

    async def _wait(self) -> None:
        with suppress(asyncio.CancelledError):  # `is_ending` is set, and the waiting code sees it
            await self._is_over.wait()

    def release(self) -> None:
        """Let go of the loop after the run. On the loop."""
        self._is_over.set()

    def open(self, owner: str = "") -> None:
        """Start the loop, where it is this owner's: a handler's by its name, the app's without."""

    def close(self, owner: str = "") -> None:
        """End the loop, where it is this owner's. Not on its thread; a second call does nothing."""

    @property
    def is_ending(self) -> bool:
        """True once the loop is ended before the run is over. Any thread."""
        return self.loop.is_closed() or bool(self._sentinel.cancelling())

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether code on this thread must not wait for the run's end. Of the present thread only.

        The loop's must never wait; a thread that a handler waits for would wait for itself.
        """
        return (thread is self.thread and self.loop.is_running()) or _inside.get() is self

    def call(self, function: Callable[[], object]) -> None:
        """Call a function on the loop, soon. Any thread; nothing happens once the loop is closed."""
        context = self._context.copy()
        with suppress(RuntimeError):  # closed: the waiting code finds that out
            self.loop.call_soon_threadsafe(context.run, function)

    def run(self, awaitable: Awaitable[Any], what: str) -> Any:
        """Wait for a coroutine on the loop; return what it returns, raise what it raises.

        Never on the loop's thread. Raises `HandlerFailedError`, naming `what`, when the loop ends before.
        """
        coroutine = self._result(awaitable, what)
        try:
            future = self._context.copy().run(asyncio.run_coroutine_threadsafe, coroutine, self.loop)
        except RuntimeError as closed:
            coroutine.close()
            if asyncio.iscoroutine(awaitable):
                awaitable.close()
            raise self.ended(what) from closed
        while not wait((future,), CHECK_S).done:
            if self.loop.is_closed():
                raise self.ended(what)
        result, error = future.result()
        if error is not None:
            raise self.ended(what) if self.is_ending else error
        return result

    def cancel(self, what: str) -> None:
        """Cancel each coroutine that a thread waits for by this name, once. Any thread."""
        for task in self._called(what):
            self.call(partial(_cancel_once, task))

    def stacks(self, what: str) -> dict[str, str]:
        """Return where each coroutine is that a thread waits for by this name. Any thread."""
        return {f"{self.thread.name} {task.get_name()}": task_stack(task) for task in self._called(what)}

    def _called(self, what: str) -> list[asyncio.Task[Any]]:
        return [task for task, name in self._calls.copy().items() if name == what]

    async def _result(self, awaitable: Awaitable[object], what: str) -> tuple[object, BaseException | None]:
        """Hand back what was raised: a SystemExit would end the loop, and a cancellation lose its name."""
        task = asyncio.current_task()
        assert task is not None
        self._calls[task] = what
        try:
            return await awaitable, None
        except BaseException as error:  # handed to the thread that waits, which raises it
            return None, error
        finally:
            del self._calls[task]

    def ended(self, what: str) -> HandlerFailedError:
        """Return the error of a run whose loop ended before it."""
        how = "was closed" if self.loop.is_closed() else "was ended, and all of its tasks cancelled,"
        return HandlerFailedError(
            f"The event loop that entered the app {how} while the app ran, so {what} was cut off. Running "
            "records are not committed and are handled again at the next start. Leave the block of `async "
            "with app` before the event loop ends: await the task that contains the block."
        )


def _cancel_once(task: asyncio.Task[Any]) -> None:
    if not task.cancelling():  # else it may be cleaning up
        task.cancel()


class AppLoop(SharedLoop):
    """A loop of the app's own, on a daemon thread: of one async handler, or of hooks and all async handlers.

    It ends as those of `asyncio.run` do, also where code that it runs stops it: what is left is cancelled.
    """

    is_callers = False

    def __init__(self, clock: Clock = REAL_CLOCK, owner: str = "") -> None:
        """Start nothing. `owner` is the handler whose it is."""
        self._clock = clock
        self._owner = owner
        name = f"ehkafka-{owner or 'app'}-loop"
        self._executors_name = f"{name}-to-thread"
        self.thread = threading.Thread(target=self._main, name=name, daemon=True)
        self._is_ready = threading.Event()
        # What has stopped it before its time.
        self._stopped_by: BaseException | None = None

    def open(self, owner: str = "") -> None:
        """Start it, where it is this owner's."""
        if owner == self._owner:
            self.loop = new_loop(self._clock)
            self.thread.start()
            self._is_ready.wait()

    def close(self, owner: str = "") -> None:
        """End it, where it is this owner's: what was left running is cancelled."""
        if owner == self._owner and self.thread.ident is not None:
            self.call(self.release)
            self.thread.join(CLOSE_S)  # it may be blocked; the thread is a daemon

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether code on this thread runs on the loop, or for what does."""
        return super().owns(thread) or thread.name.startswith(self._executors_name)

    def _main(self) -> None:
        asyncio.set_event_loop(self.loop)
        # For blocking calls: what runs there is as much the loop's.
        self.loop.set_default_executor(ThreadPoolExecutor(thread_name_prefix=self._executors_name))
        end = self._clock.on_jump(lambda: self.call(lambda: None))  # its timers are looked at again
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            try:
                runner.run(self._until_released())
            except BaseException as error:  # `loop.stop()`, or a SystemExit in a task that was left running
                self._stopped_by = error
        end()

    async def _until_released(self) -> None:
        super().__init__()
        # Coroutines begin with an empty context, as threads do: then it costs least to see that a call has
        # left nothing in it.
        self._context = Context()
        self._is_ready.set()
        await self._sentinel

    def ended(self, what: str) -> HandlerFailedError:
        """Return what to tell of a loop that code which it ran has ended."""
        error = self._stopped_by
        if error is None or isinstance(error, asyncio.CancelledError):
            how, place = "all of its tasks were cancelled", ""
        else:
            how = "loop.stop() was called" if isinstance(error, RuntimeError) else describe(error)
            place = place_of(error)
        failure = HandlerFailedError(
            f"Code of {what} ended the app's event loop: {how}{f' at {place}' if place else ''}. "
            "Running records are not committed and are handled again at the next start. Do not stop the "
            "event loop of the app: call app.stop() instead."
        )
        failure.__cause__ = error
        return failure


def new_loop(clock: Clock = REAL_CLOCK) -> asyncio.AbstractEventLoop:
    """Return a new event loop: uvloop's where the extra `ehkafka[uvloop]` is installed.

    Its timers go by the clock; uvloop's have their time from the system.
    """
    try:
        make: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module("uvloop").new_event_loop
    except ImportError:
        make = asyncio.new_event_loop
    if clock is REAL_CLOCK:
        return make()
    loop = asyncio.new_event_loop()
    loop.time = clock.now_s  # type: ignore[method-assign]
    return loop
