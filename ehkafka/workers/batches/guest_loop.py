"""A loop that is not the batches' own, for an `async def` batch handler: `BatchLoop`'s twin on a shared loop.

Used by `BatchWorkers`, on whose threads `run` waits; never called on the loop's thread.
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


class GuestBatchLoop:
    """Runs batches on a loop that somebody else starts and ends."""

    def __init__(self, name: str, on_death: Callable[[BaseException], None], shared: SharedLoop) -> None:
        self._handler = name
        self._what = f"handler {name!r}"
        self._on_death = on_death
        self._shared = shared

    def start(self) -> None:
        """Do nothing: it runs."""

    def run(self, awaitable: Awaitable[Any]) -> Any:
        """Wait for the end of a coroutine; return what it returns and raise what it raises.

        When the loop ends before it, the run ends and no record of the batch has failed.
        """
        try:
            return self._shared.run(awaitable, self._what)
        except HandlerFailedError as error:
            if not self._shared.is_ending:
                raise
            self._on_death(error)
            # No Exception: that would be a record's failure, and a policy might skip it.
            raise asyncio.CancelledError("its event loop ended") from error
        except BaseException as error:
            explain_other_loop(error, self._handler, is_callers=self._shared.is_callers)
            raise

    def close(self) -> None:
        """Do nothing: it goes on."""

    def is_on(self, thread: threading.Thread) -> bool:
        """Tell whether code on this thread runs in the loop, or for what does."""
        return self._shared.owns(thread)

    def stacks(self) -> dict[str, str]:
        """Return where each running coroutine waits."""
        return self._shared.stacks(self._what)
