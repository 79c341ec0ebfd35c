"""Asyncio workers: the pool for `async def` handlers.

Up to `size` tasks (`tasks`) of one event loop: the handler's own, or one that it shares with the other
coroutines of the run, the caller's perhaps. Clients that are bound to a loop are opened in `set_up`, which
runs on it, like `tear_down`. A call that blocks instead of awaiting holds up all others of the loop; a stuck
report names it. Where others end the loop before the run's end, nothing that ran counts as failed or
finished: those records are held, and the run ends.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
import threading
from typing import TYPE_CHECKING

from ehkafka.lanes import resizing
from ehkafka.lanes.inbox import EPOCH, KEY, MESSAGE
from ehkafka.lanes.order import describe_key
from ehkafka.wording.live_stack import task_stack, thread_stack
from ehkafka.workers.protocol import Workers
from ehkafka.workers.tasks.tasks import InboxTasks

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.workers.hub import Hub
    from ehkafka.workers.protocol import InvokeAsync, PoolOptions
    from ehkafka.workers.tasks.shared import SharedLoop

SIZE_MAX = 100_000
# Suspended tasks that a stuck report shows: those that have been there for longest.
STACKS_MAX = 50


class AsyncioWorkers(Workers):
    """Executes one handler on up to `size` tasks of one loop.

    `set_up` and `tear_down` run there once each, in one task; what they return is awaited if it can be.
    `start` and `stop` wait for what happens on the loop, so neither is ever called on its thread.
    """

    size_max = SIZE_MAX

    def __init__(
        self, hub: Hub, options: PoolOptions, loop: SharedLoop, *, invoke: InvokeAsync, restores: bool = False
    ) -> None:
        """See `InboxTasks` for `restores`."""
        self._hub = hub
        self._options = options
        self._loop = loop
        self._invoke = invoke
        self._restores = restores
        self._name = options.name
        self._size = options.size
        self._tasks: InboxTasks | None = None
        # Made on the loop, which itself keeps tasks by weak references only.
        self._life: asyncio.Task[None] | None = None
        self._has_ended = threading.Event()

    def start(self) -> None:
        """Start the loop, where it is its own, and wait for the set-up there. Raises the set-up's error."""
        try:
            self._loop.open(self._name)
            self._loop.run(self._begin(), f"on_worker_start of handler {self._name!r}")
        except BaseException:
            self._hub.close()
            self._loop.close(self._name)
            raise

    def stop(self, timeout_s: float) -> list[str]:
        """Let the tasks end once nothing is left to do; return what still runs after `timeout_s`."""
        self._hub.close()
        if self._life is None:
            return []
        self.check()
        if self._has_ended.wait(max(0.0, timeout_s)):
            self._loop.close(self._name)
            return []
        return [f"{self._name} on the loop of {self._loop.thread.name}"]

    def check(self) -> None:
        """Notice a loop that was closed, on which nothing goes on. Not on its thread."""
        if self._life is None or self._has_ended.is_set() or not self._loop.loop.is_closed():
            return
        self._has_ended.set()
        self._died(asyncio.CancelledError())

    @property
    def size(self) -> int:
        """How many calls may run at once; surplus ones that still do are not counted."""
        return self._size

    def resize(self, size: int) -> None:
        """Run up to so many calls at once from now on; surplus tasks leave after their call. Any thread."""
        with self._hub.locked() as inboxes:
            more = size - self._size
            if more > 0:
                for inbox in resizing.grow(inboxes.router, more):
                    inbox.asleep = True
            elif more < 0:
                resizing.shrink(inboxes.router, -more)
            self._size = size

    def cancel_ended(self) -> None:
        """Cancel the calls whose epoch has ended. Any thread; returns at once."""
        if self._tasks is not None:
            self._loop.call(self._tasks.cancel_ended)

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is the loop's, or one that a call there waits for."""
        return self._loop.owns(thread)

    def stacks(self) -> dict[str, str]:
        """Return where the loop's thread is, and what each of the oldest running calls awaits."""
        if self._tasks is None:
            return {}
        name, ident = self._loop.thread.name, self._loop.thread.ident
        frame = sys._current_frames().get(ident or 0)  # noqa: SLF001 - the documented way
        if frame is None:
            return {}
        found = {name: thread_stack(frame)}
        running = self._tasks.running()
        for entry, task in running[:STACKS_MAX]:
            key = describe_key(self._hub.inboxes.router.unread.keyed(entry)[KEY])
            # A call that blocks instead of awaiting is where the loop is.
            is_running = getattr(task.get_coro(), "cr_running", False)
            where = f"{name} {entry[EPOCH].partition}@{entry[MESSAGE].offset()} key {key}"
            found[where] = found[name] if is_running else task_stack(task)
        if len(running) > STACKS_MAX:
            found[f"{name} …"] = f"and {len(running) - STACKS_MAX} calls more\n"
        return found

    # -- on the loop -----------------------------------------------------------------------------------

    async def _begin(self) -> None:
        ready = asyncio.get_running_loop().create_future()
        self._life = asyncio.Task(self._live(ready), name=f"ehkafka-{self._name}")
        await asyncio.shield(ready)

    async def _live(self, ready: asyncio.Future[None]) -> None:
        try:
            try:
                await _called(self._options.set_up)
            except BaseException as error:  # handed to `start`, which raises it
                ready.set_exception(error)
                return
            # The present context is what attempts start with: after the set-up, which may have filled it.
            self._tasks = tasks = InboxTasks(
                self._hub, self._options, self._loop, self._invoke, restores=self._restores
            )
            ready.set_result(None)
            await tasks.left
            await _called(self._options.tear_down)
        except BaseException as error:  # a cancellation as the loop ends, or the engine's own
            self._died(error)
        finally:
            self._has_ended.set()

    def _died(self, error: BaseException) -> None:
        if self._tasks is not None:
            self._tasks.end()
        is_loops = isinstance(error, asyncio.CancelledError)
        self._options.on_death(self._loop.ended(f"handler {self._name!r}") if is_loops else error)


async def _called(function: Callable[[], object] | None) -> None:
    if function is not None and inspect.isawaitable(result := function()):
        await result
