"""What belongs to one event loop: the app's server has one in each run, a web app that mounts it another."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from starlette.concurrency import run_in_threadpool

from ehkafka.http.stream import Streams

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.http.journal import Journal
    from ehkafka.http.state import State

# Calls that may take or wait for a while, at a time: fewer than the loop has threads, so that probes, which
# are not among them, are answered whatever the others wait for.
CALLS_MAX: Final = 20


class OfLoop:
    """Made and used on its loop."""

    def __init__(self, state: State, journal: Journal) -> None:
        # One scrape at a time: a second one waits for the same lock of the interpreter anyway.
        self.measuring = asyncio.Lock()
        self._calls = asyncio.Semaphore(CALLS_MAX)
        self.streams = Streams(state, journal, self.call)

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call what may block, on a thread."""
        async with self._calls:
            return await run_in_threadpool(function, *arguments)


class Loops:
    """Finds what belongs to the loop that runs."""

    def __init__(self, state: State, journal: Journal) -> None:
        self._state = state
        self._journal = journal
        # Each loop's thread adds its own; those of runs that are over go when the next is added.
        self._known: dict[asyncio.AbstractEventLoop, OfLoop] = {}

    def current(self) -> OfLoop:
        """Return it. On a loop only."""
        loop = asyncio.get_running_loop()
        found = self._known.get(loop)
        if found is None:
            for known in [one for one in self._known.copy() if one.is_closed()]:
                self._known.pop(known, None)
            found = self._known[loop] = OfLoop(self._state, self._journal)
        return found
