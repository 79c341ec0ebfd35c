"""The event loop that all coroutines of one run share: the caller's, or one that the app has made for them.

Pools and hooks are its guests: they put tasks on it and never end it, block it or wait for it on its own
thread. Made by `App` for each run.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from ehkafka.errors import EhkafkaError, HandlerFailedError
from ehkafka.settings.clock import REAL_CLOCK
from ehkafka.wording.live_stack import task_stack
from ehkafka.workers.tasks.loop import new_loop, stopped_loop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ehkafka.settings.clock import Clock

# Between two looks of a waiting thread whether the loop is still there.
CHECK_S = 0.2
CLOSE_S = 1.0

# The run's loop, where code runs that the run has called there, and in what that started or gave to a thread.
_inside: ContextVar[SharedLoop | None] = ContextVar("ehkafka_inside", default=None)


class SharedLoop:
    """A loop of somebody else's: the one that runs where this is made.

    A *sentinel* task waits there for the run's end. Whoever ends a loop cancels all of its tasks first and
    lets them end next, so the sentinel tells a loop's end from the cancellation of one call.
    """

    is_callers = True

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
        with suppress(asyncio.CancelledError):  # `is_ending` says so, and who waits there hears it
            await self._is_over.wait()

    def release(self) -> None:
        """Let go of the loop after the run. On the loop."""
        self._is_over.set()

    @property
    def is_ending(self) -> bool:
        """True once somebody ends the loop before the run is over. Any thread."""
        return self.loop.is_closed() or bool(self._sentinel.cancelling())

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether code on this thread must not wait for the run's end. Of the present thread only.

        The loop's must never wait; a thread that a handler waits for would wait for itself.
        """
        return (thread is self.thread and self.loop.is_running()) or _inside.get() is self

    def call(self, function: Callable[[], object]) -> None:
        """Call a function on the loop, soon. Any thread; nothing happens once the loop is closed."""
        context = self._context.copy()
        with suppress(RuntimeError):  # closed: who waits for it finds that out
            self.loop.call_soon_threadsafe(context.run, function)

    def run(self, awaitable: Awaitable[Any], what: str) -> Any:
        """Wait for a coroutine on the loop; return what it returns, raise what it raises.

        Never on the loop's thread. Raises `HandlerFailedError`, naming `what`, when the loop ends before.
        """
        coroutine = self._outcome(awaitable, what)
        try:
            future = self._context.copy().run(asyncio.run_coroutine_threadsafe, coroutine, self.loop)
        except RuntimeError as closed:
            coroutine.close()
            if asyncio.iscoroutine(awaitable):
                awaitable.close()
            raise self.ended(what) from closed
        while True:
            try:
                result, error = future.result(CHECK_S)
            except NotYet:
                if self.loop.is_closed():
                    raise self.ended(what) from None
                continue
            if error is None:
                return result
            if self.is_ending:
                raise self.ended(what) from error
            raise error

    def cancel(self, what: str) -> None:
        """Cancel each coroutine that somebody waits for by this name, once. Any thread."""
        for task in [task for task, name in self._calls.copy().items() if name == what]:
            self.call(partial(_cancel_once, task))

    def stacks(self, what: str) -> dict[str, str]:
        """Return where each coroutine is that somebody waits for by this name. Any thread."""
        found = [task for task, name in self._calls.copy().items() if name == what]
        return {f"{self.thread.name} {task.get_name()}": task_stack(task) for task in found}

    async def _outcome(self, awaitable: Awaitable[Any], what: str) -> tuple[Any, BaseException | None]:
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

    def ended(self, what: str) -> EhkafkaError:
        """Return the error of a run whose loop ended before it."""
        how = "was closed" if self.loop.is_closed() else "was ended, and all of its tasks cancelled,"
        return HandlerFailedError(
            f"The event loop that entered the app {how} while the app ran, so {what} was cut off. Records "
            "that ran are not committed and are handled again at the next start. Leave the block of "
            "`async with app` before the loop ends: await the task that is in it."
        )


def _cancel_once(task: asyncio.Task[Any]) -> None:
    if not task.cancelling():  # else it may be cleaning up
        task.cancel()


class AppLoop(SharedLoop):
    """A loop of the app's own, on a daemon thread, for hooks that are `async def` and all async handlers."""

    is_callers = False

    def __init__(self, clock: Clock = REAL_CLOCK, handler: str = "") -> None:
        """Start it. `handler` is whose it is, where only one handler runs there."""
        self._handler = handler
        # Those of its default executor, for blocking calls: what runs there is as much the loop's. Each adds
        # itself before its first call.
        self._threads: WeakSet[threading.Thread] = WeakSet()
        # What the run does when code that it calls has stopped the loop.
        self.on_death: Callable[[BaseException], None] = lambda _error: None
        self._is_closing = False
        ready = threading.Event()
        loop = new_loop(clock)
        name = f"ehkafka-{handler or 'app'}-loop"
        thread = threading.Thread(target=self._main, args=(loop,), name=name, daemon=True)
        loop.set_default_executor(  # the loop ends it
            ThreadPoolExecutor(thread_name_prefix=f"{name}-to-thread", initializer=self._note_thread)
        )
        thread.start()

        def begin() -> None:
            super(AppLoop, self).__init__()
            # Coroutines begin with an empty context, as threads do: then it costs least to see that a call
            # has left nothing in it.
            self._context = Context()
            ready.set()

        loop.call_soon_threadsafe(begin)
        ready.wait()

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether code on this thread runs on the loop, or for what does."""
        return super().owns(thread) or thread in self._threads

    def _note_thread(self) -> None:
        self._threads.add(threading.current_thread())

    def _main(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        while not self._is_closing:
            error: BaseException = RuntimeError("Event loop stopped before its end.")
            try:
                loop.run_forever()
            except BaseException as raised:  # a SystemExit in a task that somebody left running
                error = raised
            if not self._is_closing:
                # And once more round: others wait for what runs there.
                self.on_death(stopped_loop(self._handler or "of the app", error) or error)

    def close(self) -> None:
        """End the loop: what was left running is cancelled. Not on its thread."""
        future = asyncio.run_coroutine_threadsafe(_end_the_rest(), self.loop)
        with suppress(NotYet):  # somebody blocks it; the thread is a daemon
            future.result(CLOSE_S)
        self._is_closing = True
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(CLOSE_S)
        if not self.thread.is_alive():
            self.loop.close()


async def _end_the_rest() -> None:
    """Cancel what was left running in the background, and let it hear of it."""
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    if rest:
        await asyncio.wait(rest, timeout=CLOSE_S / 2)
    await asyncio.get_running_loop().shutdown_asyncgens()
