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
        # When each call began, by its task; the oldest first, because an entry is as old as its call.
        self._began_s: dict[asyncio.Task[object], float] = {}
        # Tasks whose call was cancelled and has not ended yet.
        self._expired: set[asyncio.Task[object]] = set()
        self._is_watched = False

    def within(self, invoke: InvokeAsync) -> InvokeAsync:
        """Return `invoke` with each call cancelled at its deadline; it then fails with a `TimeoutError`."""
        began_s, expired = self._began_s, self._expired

        async def call(entry: Entry, number: int) -> object:
            task, loop = asyncio.current_task(), asyncio.get_running_loop()
            assert task is not None
            began_s[task] = now_s = loop.time()
            if not self._is_watched:
                self._watch(loop, now_s + self._deadline_s)
            try:
                result = await invoke(entry, number)
            except BaseException as error:
                del began_s[task]
                if task in expired and self._take_back(task) and isinstance(error, asyncio.CancelledError):
                    raise TimeoutError(
                        f"the call took longer than deadline_s={self._deadline_s:g} and was cancelled"
                    ) from error
                raise
            del began_s[task]
            if task in expired:  # it has swallowed its cancellation, which is not the next record's
                self._take_back(task)
            return result

        return call

    def _take_back(self, task: asyncio.Task[object]) -> bool:
        """Take our cancellation off a task whose call has ended; False where others cancelled it, too."""
        self._expired.discard(task)
        return not task.uncancel()

    def _watch(self, loop: asyncio.AbstractEventLoop, at_s: float) -> None:
        self._is_watched = True
        loop.call_at(at_s, self._sweep, loop)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Cancel what is late, and look again when the next call may be."""
        self._is_watched = False
        deadline_s, now_s = self._deadline_s, loop.time()
        late_s = now_s - deadline_s + min(EARLY_S, deadline_s * LATE_SHARE)
        for task, began_s in self._began_s.items():
            if began_s > late_s:
                self._watch(loop, max(began_s + deadline_s, now_s + deadline_s * LATE_SHARE))
                return
            if task not in self._expired:
                self._expired.add(task)
                task.cancel(f"deadline_s={deadline_s:g} has passed")
