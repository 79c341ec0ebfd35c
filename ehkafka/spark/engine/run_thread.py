"""A run's own thread on the driver: from the moment at which the group is taken until the run has ended.

Until the query is followed it is asked by the thread that starts it, and in between it does what a run owes
to others. Calls into Java whose outcome must be known are made here: the exception of a signal comes on the
main thread, and Java would go on with what nobody has heard of. It never calls Spark or the group of itself.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class RunThread:
    """The thread. `start`, any number of `call`, then `leave_to`: all by one other thread."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        """`meanwhile` takes a moment and never raises."""
        self._meanwhile = meanwhile
        self._asked: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        # Written once, by the other thread.
        self._rest: Callable[[], None] | None = None
        # Taken once, by whoever does the rest: the thread when it begins, if it ever does.
        self._turn = threading.Lock()
        self._thread = threading.Thread(target=self._main, name="ehkafka-spark", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def call(self, function: Callable[[], T]) -> T:
        """Call a function on the thread; return, or raise, what it does. Not after `leave_to`.

        A signal may end the wait: the function goes on if it has begun, and what is next comes after it.
        """
        answer: Future[T] = Future()
        self._asked.put((function, answer))
        return answer.result()

    def leave_to(self, rest: Callable[[], None]) -> None:
        """Let the thread do this to its end after what it does now, and nothing else any more.

        It is done here, and the thread never begins, where a signal came before it has.
        """
        self._rest = rest
        if self._turn.acquire(blocking=False):
            rest()

    @property
    def is_left(self) -> bool:
        """Whether it was left to what follows."""
        return self._rest is not None

    def _main(self) -> None:
        if not self._turn.acquire(blocking=False):
            return
        while self._rest is None:
            if not self._answer():
                self._meanwhile()
        self._rest()

    def _answer(self) -> bool:
        """Make the next call; tell whether there was one."""
        try:
            function, answer = self._asked.get_nowait()
        except Empty:
            return False
        try:
            answer.set_result(function())
        except BaseException as error:  # the other thread's, whatever it is
            answer.set_exception(error)
        return True
