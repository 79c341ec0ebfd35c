"""The event loop on which the batches of an `async def` handler run: one of their own, or a shared one.

Batches are few, so each keeps its worker thread while its coroutine runs, and all the rest (collecting,
results, the order of a stop) is as for plain functions. `run` is called by workers.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ehkafka.errors import HandlerFailedError
from ehkafka.settings.clock import REAL_CLOCK
from ehkafka.workers.tasks.other_loop import explain_other_loop
from ehkafka.workers.tasks.shared import AppLoop

if TYPE_CHECKING:
    import threading
    from collections.abc import Awaitable, Callable

    from ehkafka.settings.clock import Clock
    from ehkafka.workers.tasks.shared import SharedLoop


class BatchLoop:
    """Runs the batches of one handler on a loop."""

    def __init__(
        self,
        name: str,
        on_death: Callable[[BaseException], None],
        shared: SharedLoop | None = None,
        clock: Clock = REAL_CLOCK,
    ) -> None:
        """Use `shared`, which others start and end; None: one of its own, from `start` to `close`.

        `on_death` is called when the loop has ended while the handler ran.
        """
        self._handler = name
        self._what = f"handler {name!r}"
        self._on_death = on_death
        self._loop = shared
        self._clock = clock
        self._own: AppLoop | None = None

    def start(self) -> None:
        """Start the loop, where it is its own."""
        if self._loop is None:
            self._loop = self._own = AppLoop(self._clock, self._handler)
            self._own.on_death = self._on_death

    def close(self) -> None:
        """End the loop, where it is its own, once no worker waits for it. A second call does nothing."""
        own, self._own = self._own, None
        if own is not None:
            own.close()

    def run(self, awaitable: Awaitable[Any]) -> Any:
        """Wait for the end of a coroutine; return what it returns and raise what it raises.

        When the loop ends before it, the run ends and no record of the batch has failed.
        """
        assert self._loop is not None
        try:
            return self._loop.run(awaitable, self._what)
        except HandlerFailedError as error:
            if not self._loop.is_ending:
                raise
            self._on_death(error)
            # No Exception: that would be a record's failure, and a policy might skip it.
            raise asyncio.CancelledError("its event loop ended") from error
        except BaseException as error:
            explain_other_loop(error, self._handler, is_callers=self._loop.is_callers)
            raise

    def is_on(self, thread: threading.Thread) -> bool:
        """Tell whether code on this thread runs in the loop, or for what does."""
        return self._loop is not None and self._loop.owns(thread)

    def stacks(self) -> dict[str, str]:
        """Return where each running coroutine waits."""
        return {} if self._loop is None else self._loop.stacks(self._what)
