"""A blocking call on its way: a thread runs it, a task waits for it, and the task may go away meanwhile.

`run` is the thread's, everything else the loop's.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor, Future

    from ehkafka.aio.reentry import Reentry


class Job:
    """One call of the consumer. `deserted` takes its result, or its error, once no task waits for it."""

    def __init__(
        self, call: Callable[[], object], deserted: Callable[[Any, BaseException | None], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._call = call
        self._deserted = deserted
        self._answer: asyncio.Future[Any] = self._loop.create_future()
        # None where a callback's own thread runs it.
        self._place: Future[None] | None = None

    def start(self, executor: Executor, reentry: Reentry | None, *, apart: bool = False) -> None:
        """Have a thread run it: in a callback the one that called back, or `apart` from it."""
        if reentry is None or not reentry.submit(self.run, apart=apart):
            self._place = executor.submit(self.run)

    async def result(self) -> Any:
        """Return what the call returns. Of a cancelled task `deserted` gets that, now or when it is there."""
        try:
            return await self._answer
        except asyncio.CancelledError:
            answer = self._answer
            if not answer.cancelled():  # it came in the same turn of the loop
                error = answer.exception()
                self._deserted(None if error is not None else answer.result(), error)
            elif self._place is not None and self._place.cancel():  # no thread has begun it
                self._deserted(None, None)
            raise

    def run(self) -> None:
        """Call, on a thread."""
        result, error = None, None
        try:
            result = self._call()
        except BaseException as raised:
            error = raised
        try:
            self._loop.call_soon_threadsafe(self._land, result, error)
        except RuntimeError:
            # The loop was closed. No task waits any more, and nothing else runs meanwhile.
            self._deserted(result, error)

    def _land(self, result: object, error: BaseException | None) -> None:
        if self._answer.done():
            self._deserted(result, error)
        elif error is not None:
            self._answer.set_exception(error)
        else:
            self._answer.set_result(result)
