"""`ehkafka.aio.AIOConsumer`: confluent-kafka's asyncio consumer over the drop-in `ehkafka.Consumer`.

It is confluent-kafka's own class: each of its methods comes by `_call`, which is ours, as are the methods
named here. Everything is the loop's; what blocks is a `Job` on a thread of the executor.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from ehkafka.aio.callbacks import LoopCallbacks
from ehkafka.aio.calls import Calls
from ehkafka.aio.held_back import HeldBackConsumer
from ehkafka.aio.job import Job
from ehkafka.aio.reentry import Reentry
from ehkafka.consumer.access import PIECE_S
from ehkafka.consumer.ending import refuse, watch

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor
    from typing import Unpack

    from confluent_kafka import Message

    from ehkafka.consumer.keywords import OwnKeywords, RebalanceCallback, RebalanceCallbacks

_REBALANCE_CALLBACKS = ("on_assign", "on_revoke", "on_lost")
# These take turns with polls by themselves, and sooner.
_UNORDERED = frozenset({"commit", "close"})
# confluent-kafka ends the process after these on the thread of a callback, and after `poll` and `consume`.
_APART = frozenset({"list_topics", "cluster_id"})


class AIOConsumer(Calls):
    """A drop-in for `confluent_kafka.aio.AIOConsumer`: the same constructor, methods and errors.

    ```python
    from ehkafka.aio import AIOConsumer  # was: from confluent_kafka.aio import AIOConsumer

    async with AIOConsumer({"bootstrap.servers": "…", "group.id": "…"}) as consumer:
        ...
    ```

    - `consumer_conf` (required): librdkafka's properties, by name.
    - `max_workers` (default `100`): how many threads call the client, 1 or more. One is enough.
    - `executor` (default `None`): runs these calls instead; it is not shut down by `close()`.
    - `**settings`: what `ehkafka.Consumer` adds (`endpoint`, `mirror`, `contiguous`, `sync_commit`, …).

    It promises the same for commits. Of its own, where confluent-kafka does otherwise:

    - A poll that is cancelled, by a time-out for example, loses nothing: what it was about to return is
      returned by the next one. An error of its callbacks is raised by the next one, too.
    - What a task has not been given is not committed, by no commit and no other task.
    - Of several polls at once one is served after the other. Other calls come in between, so a poll without a
      time-out keeps no call out for longer than 0.2 s.
    - Callbacks may be coroutine functions or plain ones. They run on the loop, and may await every method of
      this consumer but `poll` and `consume`, which raise `RuntimeError` there; one thread is enough. They
      must not wait for other tasks that use the consumer.
    - It is used on the event loop on which it was made. On another one its calls raise `RuntimeError`; only
      `close()` is possible there, once the first loop is closed.

    Raises what `ehkafka.Consumer` raises, and `RuntimeError` where no event loop runs.
    """

    def __init__(
        self,
        consumer_conf: dict[str, Any],
        max_workers: int = 100,
        executor: Executor | None = None,
        **settings: Unpack[OwnKeywords],
    ) -> None:
        if executor is None and max_workers < 1:
            raise ValueError("max_workers must be at least 1")  # as confluent-kafka says
        self._loop = asyncio.get_running_loop()
        self._callbacks = LoopCallbacks(self, self._loop)
        given = self._callbacks.in_config(consumer_conf) if isinstance(consumer_conf, dict) else consumer_conf
        # confluent-kafka's names from here on.
        self._closed = False
        self._consumer: HeldBackConsumer = HeldBackConsumer(given, **settings)
        self._owns_executor = executor is None
        self.executor: Executor = ThreadPoolExecutor(max_workers) if executor is None else executor
        self._is_closing = False
        # Who is inside: one poll, in pieces, or one other call; first come, first served.
        self._lock = asyncio.Lock()
        # What the callbacks of a poll raised that was cancelled meanwhile.
        self._error: BaseException | None = None
        watch(self)

    def at_exit(self) -> None:
        """Inner: leave the end to the consumer below."""

    def forked(self) -> None:
        """Inner: refuse every call in the child of a fork."""
        self._checked = refuse  # type: ignore[method-assign]

    # --- reading --------------------------------------------------------------------------------------

    async def poll(self, timeout: float = -1) -> Message | None:  # noqa: ASYNC109 - confluent-kafka's name
        """See `confluent_kafka.Consumer.poll`. `consume` takes many records for the price of one."""
        found = await self._read(lambda limit_s: _listed(self._consumer.poll(limit_s)), timeout)
        return found[0] if found else None

    async def consume(
        self,
        num_messages: int = 1,
        timeout: float = -1,  # noqa: ASYNC109 - confluent-kafka's name
    ) -> list[Message]:
        """See `confluent_kafka.Consumer.consume`."""
        if num_messages == 0:
            timeout = 0  # over at once, whatever the time-out
        return await self._read(partial(self._consumer.consume, num_messages), timeout)

    async def _read(self, call: Callable[[Any], list[Message]], limit: Any) -> list[Message]:
        is_timed = isinstance(limit, int | float)
        ends_s = monotonic() + limit if is_timed and limit >= 0 else float("inf")
        reentry = self._checked()
        if reentry is not None:
            raise RuntimeError(
                "poll() and consume() cannot be called inside a callback of the same consumer. Return from "
                "the callback; the poll() that called it continues."
            )
        while await _taken(self._lock, ends_s):
            if self._is_closing:
                self._lock.release()
                raise RuntimeError("Consumer closed")
            left_s = max(0.0, ends_s - monotonic())
            # Others come in between two pieces, and a cancelled poll ends with its piece.
            found = await self._piece(partial(call, min(PIECE_S, left_s) if is_timed else limit))
            if found or left_s <= PIECE_S or not is_timed:
                return found
        return []

    async def _piece(self, call: Callable[[], list[Message]]) -> list[Message]:
        """Poll once, with the lock, which is free afterwards."""

        def deserted(found: list[Message] | None, error: BaseException | None) -> None:
            self._consumer.give_back(found or ())
            # That the consumer was closed is no news to a task that has gone.
            if error is not None and self._consumer.is_open:
                self._error = error
            self._release()

        error, self._error = self._error, None
        if error is not None:
            self._lock.release()
            raise error
        found: list[Message] = await self._run(Job(call, deserted), is_locked=True)
        try:
            if found:
                self._consumer.given(found)
        finally:
            self._lock.release()
        return found

    # --- every other call -----------------------------------------------------------------------------

    async def _call(self, blocking_task: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Have a thread of the executor call this; confluent-kafka's methods come by here."""
        reentry = self._checked()
        call = partial(blocking_task, *args, **kwargs)
        name = getattr(blocking_task, "__name__", "")
        if reentry is not None or self._is_unordered(name):
            return await self._run(Job(call, self._deserted), apart=name in _APART)
        await self._lock.acquire()

        def deserted(result: Any, error: BaseException | None) -> None:
            self._deserted(result, error)
            self._release()

        result = await self._run(Job(call, deserted), is_locked=True)
        self._lock.release()
        return result

    async def subscribe(
        self, topics: list[str], *callbacks: RebalanceCallback, **named: Unpack[RebalanceCallbacks]
    ) -> None:
        """See `confluent_kafka.Consumer.subscribe`. The callbacks get this consumer."""
        of_rebalance = self._callbacks.of_rebalance
        given = [of_rebalance(*one) for one in zip(_REBALANCE_CALLBACKS, callbacks, strict=False)]
        wrapped = {
            name: of_rebalance(name, value) if name in _REBALANCE_CALLBACKS else value
            for name, value in named.items()
        }
        await self._call(self._consumer.subscribe, topics, *given, *callbacks[len(given) :], **wrapped)

    async def close(self, *args: Any, **kwargs: Any) -> Any:
        """See `confluent_kafka.Consumer.close`. Polls that wait raise `RuntimeError`.

        In a callback the consumer is closed when the call that called back ends.
        """
        if self._loop.is_closed():
            self._loop = self._callbacks.loop = asyncio.get_running_loop()
        reentry = self._checked()
        self._is_closing = True
        is_over = False
        try:
            result = await self._call(self._consumer.close, *args, **kwargs)
            is_over = reentry is None
            return result
        finally:
            self._closed = True
            await self._end_executor(wait=is_over)

    async def _end_executor(self, *, wait: bool) -> None:
        """`wait`: for its threads; a callback must not wait for its own."""
        if not self._owns_executor:
            return
        if wait:
            await self._loop.run_in_executor(None, self.executor.shutdown, True)
        else:
            self.executor.shutdown(wait=False)

    # --- what all of them need ------------------------------------------------------------------------

    def _checked(self) -> Reentry | None:
        """Return the callback inside of which this call is. Raises where no call is possible."""
        reentry = Reentry.around(self)
        if self._closed and reentry is None:
            raise RuntimeError("Consumer closed")
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError(
                "This AIOConsumer belongs to another event loop. Make the AIOConsumer in the event loop that "
                "uses it, for example in the same asyncio.run()."
            )
        return reentry

    def _is_unordered(self, name: str) -> bool:
        return name in _UNORDERED or (name == "store_offsets" and self._consumer.is_contiguous)

    async def _run(self, job: Job, *, is_locked: bool = False, apart: bool = False) -> Any:
        """Have a thread do it. On an error the lock is let go; of a task that went, by the job."""
        try:
            job.start(self.executor, Reentry.around(self), apart=apart)
            return await job.result()
        except asyncio.CancelledError:
            raise
        except BaseException:
            if is_locked:
                self._lock.release()
            raise

    def _deserted(self, _result: Any, error: BaseException | None) -> None:
        """No task waits any more for a call that was begun."""
        if error is not None:
            what = {
                "message": "A call of an AIOConsumer failed after the call's task was cancelled.",
                "exception": error,
            }
            self._loop.call_exception_handler(what)

    def _release(self) -> None:
        if not self._loop.is_closed():
            self._lock.release()


def _listed(message: Message | None) -> list[Message]:
    return [] if message is None else [message]


async def _taken(lock: asyncio.Lock, ends_s: float) -> bool:
    """Take the lock; False: not in time."""
    if ends_s == float("inf"):
        return await lock.acquire()
    try:
        async with asyncio.timeout(ends_s - monotonic()):
            return await lock.acquire()
    except TimeoutError:
        return False
