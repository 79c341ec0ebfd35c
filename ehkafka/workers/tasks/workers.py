"""Asyncio workers: the pool for `async def` handlers.

One thread with an event loop of its own, and on it up to `size` tasks (`tasks`). The loop is the
handler's: clients that are bound to one are opened in `set_up`, which runs on it, like `tear_down`. A call
that blocks instead of awaiting holds up all others of this handler; a stuck report names it.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
import threading
from typing import TYPE_CHECKING

from ehkafka.lanes.inbox import EPOCH, MESSAGE
from ehkafka.lanes.order import describe_key
from ehkafka.settings.clock import REAL_CLOCK
from ehkafka.wording.live_stack import task_stack, thread_stack
from ehkafka.workers.loop_threads import LoopThreads
from ehkafka.workers.tasks.loop import new_loop, stopped_loop
from ehkafka.workers.tasks.other_loop import explain_other_loop
from ehkafka.workers.tasks.tasks import InboxTasks

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.settings.clock import Clock
    from ehkafka.workers.hub import Hub
    from ehkafka.workers.protocol import InvokeAsync, PoolOptions

SIZE_MAX = 100_000
# Suspended tasks that a stuck report shows: those that have been there for longest.
STACKS_MAX = 50


class AsyncioWorkers:
    """Executes one handler on up to `size` tasks of one loop thread.

    `set_up` and `tear_down` run on the loop once each; what they return is awaited if it can be.
    """

    size_max = SIZE_MAX

    def __init__(
        self,
        hub: Hub,
        options: PoolOptions,
        *,
        invoke: InvokeAsync,
        restores: bool = False,
        clock: Clock = REAL_CLOCK,
    ) -> None:
        self._hub = hub
        self._clock = clock
        self._size = options.size
        self._invoke = invoke
        self._restores = restores
        self._options = options
        self._on_death = options.on_death
        self._ready = threading.Event()
        self._set_up_error: BaseException | None = None
        # Set by the loop's thread before `start` returns.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: InboxTasks | None = None
        self._blocking = LoopThreads()
        self._is_loop_ending: Callable[[], bool] = lambda: False
        # A daemon: a handler that never returns must not keep the process from leaving.
        self._name = options.name
        self._thread = threading.Thread(target=self._main, name=f"ehkafka-{options.name}-loop", daemon=True)

    def start(self) -> None:
        """Start the loop and wait until the set-up has run on it. Raises the set-up's error."""
        self._thread.start()
        self._ready.wait()
        if self._set_up_error is not None:
            self._hub.close()
            raise self._set_up_error

    def stop(self, timeout_s: float) -> list[str]:
        """Let the loop end once nothing is left to do; return its name if that is not by `timeout_s`."""
        self._hub.close()
        if self._thread.ident is None:  # the system may have refused to start it
            return []
        if self._tasks is not None:
            self._call(self._tasks.check_left)
        self._thread.join(max(0.0, timeout_s))
        return [self._thread.name] if self._thread.is_alive() else []

    @property
    def size(self) -> int:
        """How many calls may run at once; surplus ones that still do are not counted."""
        return self._size

    @property
    def busy(self) -> int:
        """How many calls run, about."""
        return 0 if self._tasks is None else self._tasks.busy

    def resize(self, size: int) -> None:
        """Run up to so many calls at once from now on; surplus tasks leave after their call. Any thread."""
        with self._hub.locked() as inboxes:
            more = size - self._size
            if more > 0:
                for inbox in inboxes.grow(more):
                    inbox.asleep = True
            elif more < 0:
                inboxes.shrink(-more)
            self._size = size

    def cancel_ended(self) -> None:
        """Cancel the calls whose epoch has ended. Any thread; returns at once."""
        if self._tasks is not None:
            self._call(self._tasks.cancel_ended)

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is this loop's, or one that it gave a blocking call to."""
        return thread is self._thread or self._blocking.owns(thread)

    def stacks(self) -> dict[str, str]:
        """Return where the loop's thread is, and what each of the oldest running calls awaits."""
        frame = sys._current_frames().get(self._thread.ident or 0)  # noqa: SLF001 - the documented way
        if frame is None or self._tasks is None:
            return {}
        found = {self._thread.name: thread_stack(frame)}
        running = self._tasks.running()
        for entry, task in running[:STACKS_MAX]:
            key = describe_key(self._hub.inboxes.key_of(entry))
            where = f"{entry[EPOCH].partition}@{entry[MESSAGE].offset()} key {key}"
            # A call that blocks instead of awaiting is where the loop is.
            is_running = getattr(task.get_coro(), "cr_running", False)
            found[f"{self._thread.name} {where}"] = (
                found[self._thread.name] if is_running else task_stack(task)
            )
        if len(running) > STACKS_MAX:
            found[f"{self._thread.name} …"] = f"and {len(running) - STACKS_MAX} calls more\n"
        return found

    def _call(self, function: Callable[[], None]) -> None:
        try:
            assert self._loop is not None
            self._loop.call_soon_threadsafe(function)
        except RuntimeError:  # the loop is closed: nothing is left to do it for
            return

    def _main(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: new_loop(self._clock)) as runner:
                self._loop = runner.get_loop()
                self._blocking.attach(self._loop, self._thread.name)
                try:
                    runner.run(self._live())
                except BaseException as error:  # not a handler's: the engine's own, or a loop's that is gone
                    self._died(stopped_loop(self._name, error) or error)
        finally:
            self._ready.set()

    async def _live(self) -> None:
        try:
            await _called(self._options.set_up)
        except BaseException as error:  # handed to `start`, which raises it
            self._set_up_error = error
            return
        # The present context is what attempts start with: after the set-up, which may have filled it.
        self._tasks = tasks = InboxTasks(
            self._hub,
            self._options,
            name=self._thread.name,
            invoke=self._invoke,
            restores=self._restores,
            is_loop_ending=self._is_loop_ending,
            explain=self._explain,
        )
        self._ready.set()
        tasks.start()
        await tasks.left
        await _called(self._options.tear_down)

    def _explain(self, error: BaseException) -> None:
        explain_other_loop(error, self._name, is_callers=False)

    def _died(self, error: BaseException) -> None:
        if self._tasks is not None:
            self._tasks.is_dead = True
        self._on_death(error)


async def _called(function: Callable[[], object] | None) -> None:
    if function is not None and inspect.isawaitable(result := function()):
        await result
