"""The event loop on which the batches of an `async def` handler run: one of their own, or a shared one.

Batches are few, so each keeps its worker thread while its coroutine runs, and all the rest (collecting,
results, the order of a stop) is as for plain functions. `run` is called by workers.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ehkafka.errors import HandlerFailedError
from ehkafka.workers.tasks.other_loop import explain_other_loop

if TYPE_CHECKING:
    import threading
    from collections.abc import Awaitable, Callable

    from ehkafka.workers.tasks.shared import SharedLoop


class BatchLoop:
    """Runs the batches of one handler on a loop."""

    def __init__(self, name: str, on_death: Callable[[BaseException], None], loop: SharedLoop) -> None:
        """`on_death` is called when the loop has ended while the handler ran."""
        self._handler = name
        self._what = f"handler {name!r}"
        self._on_death = on_death
        self._loop = loop

    def start(self) -> None:
        """Start the loop, where it is its own."""
        self._loop.open(self._handler)

    def close(self) -> None:
        """End the loop, where it is its own, once no worker waits for it. A second call does nothing."""
        self._loop.close(self._handler)

    def run(self, awaitable: Awaitable[Any]) -> Any:
        """Wait for the end of a coroutine; return what it returns and raise what it raises.

        When the loop ends before it, the run ends and no record of the batch has failed.
        """
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
        return self._loop.owns(thread)

    def stacks(self) -> dict[str, str]:
        """Return where each running coroutine waits."""
        return self._loop.stacks(self._what)
