"""The last calls of a client, which know no time-out: how long its program waits for them.

A thread `ehkafka-close` makes them, and the program's own thread runs the callbacks that they bring. After
`close_s` the program continues; the thread, which is left inside the client, ends when the client does.

An exception must not leave a callback that librdkafka calls inside `poll` and `consume`: the records that
were about to be returned would be dropped, and the position has moved past them. Nor may one take the client
away. Both are kept until the call is over and the records are safe.

What ends with the process, or is copied into another one by a fork, is watched here, too.
"""

from __future__ import annotations

import atexit
import functools
import logging
import os
import sys
import threading
import weakref
from concurrent.futures import Future
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any, NoReturn

from confluent_kafka import cimpl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Between two checks whether the program still waits.
_CHECK_S = 0.1


class LastCalls:
    """Makes one consumer's last calls. Made by the consumer's thread, which also runs the callbacks."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._is_over = False
        # The program waits no more. Written by its thread.
        self.is_left = False

    @property
    def thread_id(self) -> int | None:
        """Which thread makes the calls; None: the program's own."""
        return None if self._thread is None else self._thread.ident

    def run(self, calls: Callable[[], None], limit_s: float | None) -> bool:
        """Make the calls; False: they have not ended within the limit. Raises what they raise."""
        if limit_s is None or not self._starts(calls):
            calls()
            return True
        try:
            self._serve(monotonic() + limit_s)
        finally:  # Ctrl-C ends the wait, too
            self.is_left = not self._is_over
        if self._error is not None:
            raise self._error
        return not self.is_left

    def at_home(self, callback: Callable[..., object], *arguments: object) -> Any:
        """Run a callback on the program's thread, while that waits; else not at all."""
        if self.thread_id != threading.get_ident():
            return callback(*arguments)
        answer: Future[Any] = Future()
        self._jobs.put((answer, lambda: callback(*arguments)))
        while not self.is_left:
            try:
                return answer.result(_CHECK_S)
            except TimeoutError:
                if answer.done():  # the callback's own
                    raise
        return None

    def _starts(self, calls: Callable[[], None]) -> bool:
        if sys.is_finalizing():
            return False  # until 3.12, Python waits for ever here
        # Known before it starts: its first callback may come at once.
        thread = threading.Thread(target=self._main, args=(calls,), name="ehkafka-close", daemon=True)
        self._thread = thread
        try:
            thread.start()
        except RuntimeError:  # from 3.12 on
            self._thread = None
        return self._thread is not None

    def _main(self, calls: Callable[[], None]) -> None:
        try:
            calls()
        except BaseException as error:
            self._error = error
        self._is_over = True
        self._jobs.put(None)

    def _serve(self, ends_s: float) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=max(0.0, ends_s - monotonic()))
            except Empty:
                return
            if job is None:
                return
            answer, callback = job
            try:
                with _as_thread(self.thread_id):
                    answer.set_result(callback())
            except Exception as error:
                answer.set_exception(error)


class Callbacks:
    """Holds back what a call's callbacks do until the call is over. `report` is called when it does."""

    def __init__(self, report: Callable[[], None]) -> None:
        self._report = report
        # Whether there is something, so that the call should end.
        self.is_cut = False
        self.is_close_wanted = False
        # While the client is closed: they run on the program's thread all the same.
        self.last_calls: LastCalls | None = None
        # The first one of a call.
        self._error: BaseException | None = None

    def guard(self, callback: Callable[..., object]) -> Callable[..., Any]:
        """Return the callback without its exceptions."""

        @functools.wraps(callback, updated=())
        def wrapped(*arguments: object) -> Any:
            try:
                last_calls = self.last_calls
                if last_calls is not None:
                    return last_calls.at_home(callback, *arguments)
                return callback(*arguments)
            except BaseException as error:
                self._keep(error)
                return None

        return wrapped

    def close_later(self) -> None:
        """A callback wants the consumer to be closed."""
        self.is_cut = self.is_close_wanted = True
        self._report()

    def release(self) -> None:
        """Raise what was kept, once."""
        error, self._error = self._error, None
        self.is_cut = self.is_close_wanted = False
        if error is not None:
            raise error

    def _keep(self, error: BaseException) -> None:
        if self._error is None:
            self._error = error
            self.is_cut = True
            self._report()
        else:  # one call raises one exception
            logging.getLogger("ehkafka").error("Another callback failed in the same call.", exc_info=error)


@contextmanager
def _as_thread(thread_id: int | None) -> Iterator[None]:
    """Let confluent-kafka (2.16 and newer) take this thread for the one that is inside the client."""
    identity: Any = getattr(cimpl, "_reentry_identity_var", None)
    token = None if identity is None else identity.set(thread_id)
    try:
        yield
    finally:
        if identity is not None:
            identity.reset(token)


def watch(one: object) -> None:
    """Have `one.at_exit()` called when the process ends, and `one.forked()` in the child of a fork."""
    _WATCHED[id(one)] = one


def refuse(*_arguments: object, **_named: object) -> NoReturn:
    """Take the place of a method in the child of a fork."""
    raise RuntimeError(
        "The process forked after this consumer was made, so the child process has none of the consumer's "
        "threads and sockets. Make the consumer in the child process, or start child processes with "
        "multiprocessing's 'spawn'."
    )


def _at_exit() -> None:
    for one in list(_WATCHED.values()):
        try:
            one.at_exit()
        except Exception:
            logging.getLogger("ehkafka.consumer").exception("A consumer did not end well at the exit.")


def _forked() -> None:
    for one in list(_WATCHED.values()):
        one.forked()
    _WATCHED.clear()


_WATCHED: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
atexit.register(_at_exit)
os.register_at_fork(after_in_child=_forked)
