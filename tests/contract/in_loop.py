"""An app that a coroutine has entered, for tests that are none, and what coroutines of tests need."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from typing import Any

import ehkafka

LIMIT_S = 30.0
# Well below what a test waits, and above what a loaded machine takes.
AT_ONCE_S = 3.0


class InLoop:
    """`async with app` on a thread with an event loop; everything else is the app's own."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.loop: asyncio.AbstractEventLoop
        self._leave: asyncio.Event
        # What the start or the block raised.
        self.error: BaseException | None = None
        self._entered = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Enter it, and raise what is wrong."""
        self._thread = threading.Thread(target=self._main, name="a-loop", daemon=True)
        self._thread.start()
        assert self._entered.wait(LIMIT_S)
        if self.error is not None and self.app.state != "running":
            self._thread.join(LIMIT_S)
            if not isinstance(self.error, ehkafka.errors.HandlerFailedError):
                raise self.error

    def stop(self, **options: Any) -> None:
        """Stop it from the test's thread, and let the block end."""
        try:
            self.app.stop(**options)
        finally:
            self.close()
        # The block may have been quicker.
        if isinstance(self.error, ehkafka.EhkafkaError):
            raise self.error

    def close(self) -> None:
        """Let the block end, and wait for that."""
        if self._thread is not None and self._thread.is_alive():
            with suppress(RuntimeError):
                self.loop.call_soon_threadsafe(self._leave.set)
            self._thread.join(LIMIT_S)
            assert not self._thread.is_alive()

    def _main(self) -> None:
        try:
            asyncio.run(self._live())
        except BaseException as error:  # the test raises it
            self.error = error
        finally:
            self._entered.set()

    async def _live(self) -> None:
        self.loop, self._leave = asyncio.get_running_loop(), asyncio.Event()
        async with self.app:
            self._entered.set()
            await self._leave.wait()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.app, name)


class Client:
    """A client of some service, bound to the loop that made it and used by several calls at once."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lock = asyncio.Lock()
        self.sent: list[int] = []

    async def send(self, offset: int) -> None:
        """Send it."""
        async with self._lock:
            await asyncio.wait_for(self._loop.create_task(asyncio.sleep(0.001)), 5.0)
            self.sent.append(offset)


async def until(true: Any, limit_s: float = 15.0) -> None:
    """Wait without blocking the loop."""
    async with asyncio.timeout(limit_s):
        while not true():  # noqa: ASYNC110 - another thread's work
            await asyncio.sleep(0.005)


def failing(lab: Any, topic: str = "t", **options: Any) -> Any:
    """Make an app whose first record ends it; `lab.produce` says when."""

    def fail(record: Any) -> None:
        raise ValueError(f"no luck with {record.topic()}")

    return lab.app(fail, topic, **options)


def is_at_once(began_s: float) -> bool:
    """Tell whether that was a moment ago."""
    return time.monotonic() - began_s < AT_ONCE_S
