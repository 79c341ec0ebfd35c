"""Deadlines of calls on one event loop: one timer over all that run, instead of one for each.

A timer made and cancelled for every record doubled what a quick call costs. Everything here runs on the
loop's thread.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ehkafka.lanes.inbox import Entry
    from ehkafka.workers.protocol import InvokeAsync

# How late a call may be cancelled, as a share of its deadline: so often, at most, is looked for late ones.
LATE_SHARE = 0.05
# How early a loop's timer may come.
EARLY_S = 1e-3


class Deadlines:
    """The calls of one handler that run now. Each may take `deadline_s` seconds."""

    def __init__(self, deadline_s: float) -> None:
        self._deadline_s = deadline_s
        # When each call began, by its task, the oldest first; None once it was cancelled.
        self._began_s: dict[asyncio.Task[object], float | None] = {}
        self._is_watched = False

    def within(self, invoke: InvokeAsync) -> InvokeAsync:
        """Return `invoke` with each call cancelled at its deadline; it then fails with a `TimeoutError`."""
        began_s = self._began_s

        async def call(entry: Entry, number: int) -> object:
            task, loop = asyncio.current_task(), asyncio.get_running_loop()
            assert task is not None
            began_s[task] = now_s = loop.time()
            if not self._is_watched:
                self._watch(loop, now_s + self._deadline_s)
            cancelled: asyncio.CancelledError | None = None
            try:
                return await invoke(entry, number)
            except asyncio.CancelledError as error:
                cancelled = error
                raise
            finally:
                # Ours is taken off the task, swallowed or not: it is not the next record's. Others' stay.
                if began_s.pop(task) is None and not task.uncancel() and cancelled is not None:
                    raise TimeoutError(
                        f"the call took longer than deadline_s={self._deadline_s:g} and was cancelled"
                    ) from cancelled

        return call

    def _watch(self, loop: asyncio.AbstractEventLoop, at_s: float) -> None:
        self._is_watched = True
        loop.call_at(at_s, self._sweep, loop)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Cancel what is late, and look again when the next call may be."""
        self._is_watched = False
        deadline_s, now_s = self._deadline_s, loop.time()
        late_s = now_s - deadline_s + min(EARLY_S, deadline_s * LATE_SHARE)
        for task, began_s in self._began_s.items():
            if began_s is None:
                continue
            if began_s > late_s:
                self._watch(loop, max(began_s + deadline_s, now_s + deadline_s * LATE_SHARE))
                return
            self._began_s[task] = None
            task.cancel(f"deadline_s={deadline_s:g} has passed")
