"""The state as it changes, and events as they come, as server-sent events.

One task makes the state for all listeners of an event loop. Each has a short queue: a client that does not
read misses what does not fit. The others do not wait for it. The app's server has a loop in each run, a web
app that mounts it another one: what belongs to a loop is kept apart.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from starlette.concurrency import run_in_threadpool

from ehkafka.http.plain import dumped

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from ehkafka.http.journal import Journal
    from ehkafka.http.state import State

EVERY_S: Final = 1.0
STREAMS_MAX: Final = 32
# Events and states that a client may be behind by.
QUEUE_MAX: Final = 50
# Calls that may take or wait for a while, at a time: fewer than the loop has threads, so that probes, which
# are not among them, are answered whatever the others wait for.
CALLS_MAX: Final = 20
# What is sent: its kind, and its JSON.
Item = tuple[str, bytes]


class TooManyStreamsError(Exception):
    """As many listen as may."""


class Streams:
    """The listeners of one event loop."""

    def __init__(
        self, state: State, journal: Journal, call: Callable[[Callable[[], bytes]], Awaitable[bytes]]
    ) -> None:
        """`call` calls what may block, on a thread."""
        self._state = state
        self._journal = journal
        self._call = call
        self._queues: set[asyncio.Queue[Item]] = set()
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def open(self) -> asyncio.Queue[Item]:
        """Begin to listen. Raises `TooManyStreamsError`."""
        if len(self._queues) >= STREAMS_MAX:
            raise TooManyStreamsError
        queue: asyncio.Queue[Item] = asyncio.Queue(QUEUE_MAX)
        self._queues.add(queue)
        if self._task is None or self._task.done():
            self._loop = asyncio.get_running_loop()
            self._task = self._loop.create_task(self._make())
            self._journal.listeners.append(self._on_event)
        return queue

    async def read(self, queue: asyncio.Queue[Item], access: dict[str, Any]) -> AsyncIterator[bytes]:
        """Yield the lines for one listener, the state at once. Closing it ends the listening."""
        try:
            allowed = b',"access":' + dumped(access) + b"}"
            queue.put_nowait(("state", await self._dumped()))
            while True:
                kind, what = await queue.get()
                # Each listener may do something else, and the state is long: only its end is its own.
                yield line(kind, what[:-1] + allowed if kind == "state" else what)
        finally:
            self._queues.discard(queue)

    async def _make(self) -> None:
        try:
            while self._queues:
                await asyncio.sleep(EVERY_S)
                self._give(("state", await self._dumped()))
        finally:
            self._journal.listeners.remove(self._on_event)

    def _on_event(self, shown: dict[str, Any]) -> None:
        """Take an event on the telemetry thread."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._give, ("event", dumped(shown)))

    async def _dumped(self) -> bytes:
        return await self._call(lambda: dumped(self._state.get()))

    def _give(self, what: Item) -> None:
        for queue in self._queues:
            if queue.full():
                queue.get_nowait()  # the oldest: the next state has all that counts
            queue.put_nowait(what)


def line(kind: str, json: bytes) -> bytes:
    """Return one server-sent event."""
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), json)


class OfLoop:
    """Made and used on its loop."""

    def __init__(self, state: State, journal: Journal) -> None:
        # One scrape at a time: a second one waits for the same lock of the interpreter anyway.
        self.measuring = asyncio.Lock()
        self._calls = asyncio.Semaphore(CALLS_MAX)
        self.streams = Streams(state, journal, self.call)

    async def call(self, function: Callable[..., object], *arguments: object) -> Any:
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
