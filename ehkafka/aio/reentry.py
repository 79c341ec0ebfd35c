"""One callback of the program: it runs on the loop, while the thread that librdkafka called back on waits.

That thread is inside the consumer, and no other gets in. So what the callback asks of the consumer is run by
that very thread, as if a plain callback had called: no second thread is needed, and nothing stands still.
What other tasks ask meanwhile waits for the end of the callback.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from contextvars import ContextVar
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any

from confluent_kafka import cimpl

if TYPE_CHECKING:
    from collections.abc import Callable

# How often the waiting thread sees to whether its loop still runs.
WATCH_S = 0.2
# A loop that stands still for so long is taken for one that never goes on: a program's end would wait.
STOPPED_S_MAX = 5.0

# The callbacks around a task, the innermost last. Tasks that a callback starts inherit it.
_around: ContextVar[tuple[Reentry, ...]] = ContextVar("ehkafka_callbacks", default=())


class Reentry:
    """A callback that runs, and its waiting thread. `owner` is the consumer that calls back."""

    def __init__(self, owner: object, name: str, loop: asyncio.AbstractEventLoop) -> None:
        self._owner = owner
        self._name = name
        self._loop = loop
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._state = threading.Lock()
        # Under the state's lock: from then on the thread waits no more.
        self._is_over = False
        # Set before the last job, None; read behind it.
        self._result: Any = None
        self._error: BaseException | None = None
        # The loop itself holds its tasks weakly.
        self._task: asyncio.Task[None] | None = None

    @staticmethod
    def around(owner: object) -> Reentry | None:
        """Return the callback of this consumer inside of which the calling task is, if that still runs."""
        return next((one for one in reversed(_around.get()) if one.is_of(owner)), None)

    def is_of(self, owner: object) -> bool:
        """Tell whether this is a callback of this consumer that still runs."""
        return self._owner is owner and not self._is_over

    def submit(self, job: Callable[[], None], *, apart: bool = False) -> bool:
        """Have the waiting thread do this; False: it waits no more.

        `apart`: on another thread, in its name. For calls that confluent-kafka does not survive inside of a
        callback on the thread that it called back.
        """
        with self._state:
            if not self._is_over:
                self._jobs.put(partial(_run_apart, job) if apart else job)
            return not self._is_over

    def call(self, callback: Callable[..., object], arguments: tuple[object, ...]) -> Any:
        """Run the callback on the loop and wait for it. On librdkafka's calling thread.

        Raises what the callback raises, and `RuntimeError` where no loop can run it.
        """
        try:
            self._loop.call_soon_threadsafe(self._begin, callback, arguments)
        except RuntimeError:
            raise self._unable("is closed") from None
        last_seen_s = monotonic()
        while True:
            try:
                job = self._jobs.get(timeout=WATCH_S)
            except Empty:
                if self._loop.is_running():
                    last_seen_s = monotonic()
                elif self._loop.is_closed() or monotonic() - last_seen_s > STOPPED_S_MAX:
                    self._give_up()
                continue
            if job is None:
                break
            job()
        if self._error is not None:
            raise self._error
        return self._result

    def _begin(self, callback: Callable[..., object], arguments: tuple[object, ...]) -> None:
        if not self._is_over:  # else the thread has given up
            self._task = self._loop.create_task(self._run(callback, arguments))

    async def _run(self, callback: Callable[..., object], arguments: tuple[object, ...]) -> None:
        _around.set((*_around.get(), self))
        try:
            result = callback(*arguments)
            self._result = await result if inspect.isawaitable(result) else result
        except asyncio.CancelledError:
            why = f"{self._name} was cancelled, so the call that ran {self._name} fails."
            self._error = RuntimeError(why)
            raise
        except Exception as error:
            self._error = error
        except BaseException as error:
            self._error = error
            raise
        finally:
            with self._state:
                self._is_over = True
                self._jobs.put(None)

    def _give_up(self) -> None:
        with self._state:
            if self._is_over:
                return  # it has ended in this moment
            self._is_over = True
            self._error = self._unable("does not run")
            self._jobs.put(None)

    def _unable(self, what: str) -> RuntimeError:
        return RuntimeError(
            f"{self._name} could not be called: the event loop of its AIOConsumer {what}. Await close() "
            "before the loop ends."
        )


def _run_apart(job: Callable[[], None]) -> None:
    """Have another thread do it, which confluent-kafka (from 2.16 on) lets in as if it were this one."""
    identity: Any = getattr(cimpl, "_reentry_identity_var", None)
    # In a callback of the close, the thread that closes is inside, and not this one.
    caller = None if identity is None else identity.get(None) or threading.get_ident()

    def run() -> None:
        if identity is not None:
            identity.set(caller)
        job()

    thread = threading.Thread(target=run, name="ehkafka-aio")
    thread.start()
    thread.join()
