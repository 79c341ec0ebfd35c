"""Asyncio workers on a loop that is not theirs: tasks beside whatever else runs there.

The same tasks as on a loop of their own. What differs is that others may end the loop before the run's end:
then nothing that ran counts as failed or finished, those records are held, and the run ends.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from ehkafka.workers.tasks.other_loop import explain_other_loop
from ehkafka.workers.tasks.workers import AsyncioWorkers

if TYPE_CHECKING:
    from ehkafka.workers.hub import Hub
    from ehkafka.workers.protocol import InvokeAsync, PoolOptions
    from ehkafka.workers.tasks.shared import SharedLoop


class GuestWorkers(AsyncioWorkers):
    """Executes one handler on up to `size` tasks of a shared loop.

    `start` and `stop` wait for what happens on the loop, so neither is ever called on its thread.
    """

    def __init__(
        self,
        hub: Hub,
        options: PoolOptions,
        *,
        invoke: InvokeAsync,
        restores: bool = False,
        shared: SharedLoop,
    ) -> None:
        super().__init__(hub, options, invoke=invoke, restores=restores)
        self._shared = shared
        self._loop, self._thread = shared.loop, shared.thread
        self._is_loop_ending = lambda: shared.is_ending
        # Set on the loop, before its first step; the loop itself keeps tasks by weak references only.
        self._task: asyncio.Task[None] | None = None
        self._has_ended = threading.Event()

    def start(self) -> None:
        """Put the pool on the loop and wait until the set-up has run there. Raises the set-up's error."""
        self._shared.call(self._begin)
        try:
            self._shared.wait_for(self._ready, f"handler {self._name!r}")
        except BaseException:
            self._hub.close()
            raise
        if self._set_up_error is not None:
            self._hub.close()
            if isinstance(self._set_up_error, asyncio.CancelledError):
                raise self._shared.ended(f"on_worker_start of handler {self._name!r}")
            raise self._set_up_error

    def stop(self, timeout_s: float) -> list[str]:
        """Let the tasks end once nothing is left to do; return their name if that is not by `timeout_s`."""
        self._hub.close()
        if self._task is None:
            return []
        if self._tasks is not None:
            self._call(self._tasks.check_left)
        self.check()
        is_over = self._has_ended.wait(max(0.0, timeout_s))
        return [] if is_over else [f"{self._name} on the loop of {self._thread.name}"]

    def check(self) -> None:
        """Notice a loop that was closed, on which nothing goes on. Not on its thread."""
        if self._loop is None or not self._loop.is_closed() or self._has_ended.is_set():
            return
        self._has_ended.set()
        if self._tasks is not None:
            self._tasks.hold_all()
        self._on_death(self._shared.ended(f"handler {self._name!r}"))

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is the loop's, or one that a call there waits for."""
        return self._shared.owns(thread)

    def _begin(self) -> None:
        assert self._loop is not None
        self._task = asyncio.Task(self._stay(), loop=self._loop, name=f"ehkafka-{self._name}")

    def _explain(self, error: BaseException) -> None:
        explain_other_loop(error, self._name, is_callers=self._shared.is_callers)

    async def _stay(self) -> None:
        try:
            await self._live()
        except asyncio.CancelledError:
            self._died(self._shared.ended(f"handler {self._name!r}"))
        except BaseException as error:  # the engine's own
            self._died(error)
        finally:
            self._ready.set()
            self._has_ended.set()
