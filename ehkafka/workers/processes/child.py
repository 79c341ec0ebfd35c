"""The main function of a worker process: takes batches from its parent and calls the handler.

Started afresh by `link`, never forked: no client, thread or lock of the parent's is here. The main
thread runs the user's code; one more does nothing but wait for the parent's death, which ends this process at
once, whatever the handler does. SIGINT and SIGTERM are left to the parent, who drains. Its end of a pipe
closed is how it asks this process to leave.

Before each record a claim is taken, so that the parent knows at any moment which record runs. What a record
has sent, or failed with, is reported before the next claim is taken: so of records that have ended without a
word the parent knows, too, that they have sent nothing. Behind a record that has failed the later ones of its
key take their claims and are not run.
"""

from __future__ import annotations

import contextlib
import faulthandler
import marshal
import os
import pickle
import signal
import sys
import threading
import time
from multiprocessing import spawn
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from ehkafka.errors import ConfigurationError, describe
from ehkafka.records.deferral import refuse_to_defer
from ehkafka.wording import ended
from ehkafka.workers.processes import pipe
from ehkafka.workers.processes.answers import Answers
from ehkafka.workers.processes.failure import pack_error
from ehkafka.workers.processes.logs import is_set_up
from ehkafka.workers.processes.message import CopiedMessage
from ehkafka.workers.processes.outbox import Outbox

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.workers.processes.message import Copied

# True while the program's main module is imported again: an app must not be started by that.
importing_main = False
# Asks the parent's app to stop; None in a process that is no worker. Set once, before the user's code.
stop_parent: Callable[[Any, float | None], None] | None = None


def main(requests: int, answers_fd: int, claims: int, lifeline: int, dumps: int) -> None:
    """Serve the parent until it closes `requests`. The arguments are file descriptors."""
    for fd in (requests, answers_fd, claims, lifeline, dumps):
        os.set_inheritable(fd, False)
    _leave_signals_to_the_parent()
    refuse_to_defer(
        "a record cannot be deferred in a worker process: its token could not leave it; use threads or an "
        "async handler for that"
    )
    threading.Thread(target=_die_with, args=(lifeline,), name="ehkafka-lifeline", daemon=True).start()
    frame = pipe.read_frame(requests)
    if frame is None:
        return
    answers = Answers(answers_fd)
    _let_the_app_be_stopped(answers)
    try:
        boot = pickle.loads(frame.body)  # noqa: S301 - the parent wrote it
        calls, tear_down = _boot(boot, answers)
    except BaseException as error:
        answers.send(pipe.REFUSED, pack_error(error))
        raise SystemExit(1) from error
    faulthandler.register(signal.SIGUSR1, file=dumps, all_threads=True)
    answers.send(pipe.READY, pipe.SILENT if boot["logs"] and not is_set_up() else b"")
    batch = _Batch(calls, pipe.Claims(claims), answers)
    while (frame := pipe.read_frame(requests)) is not None:
        batch.run(marshal.loads(frame.body))  # noqa: S302 - the parent wrote it
    if tear_down is not None:
        _tear_down(tear_down, answers)


def _let_the_app_be_stopped(answers: Answers) -> None:
    global stop_parent  # noqa: PLW0603 - what this process is
    stop_parent = lambda drain, timeout_s: answers.ask(  # noqa: E731 - a function of the answers alone
        pipe.STOP, marshal.dumps((drain, timeout_s))
    )


def _leave_signals_to_the_parent() -> None:
    # A function, not SIG_IGN: what a handler executes must not inherit that it ignores them.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: None)
    # The parent blocked them, so that none could end this process before it got here.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})


def _die_with(lifeline: int) -> NoReturn:
    """Wait for the end of a pipe that the parent alone holds open."""
    while os.read(lifeline, 1):
        pass
    os._exit(0)


def _boot(boot: dict[str, Any], answers: Answers) -> tuple[_Calls, Callable[[], Any] | None]:
    global importing_main  # noqa: PLW0603 - the import is a state of the process
    importing_main = True
    try:
        spawn.prepare(boot["main"])
    finally:
        importing_main = False
    call, set_up, tear_down = _imported(boot)
    outbox = None
    if call.maker is not None:
        outbox = Outbox(call.maker, lambda *kind: answers.ask(pipe.KIND, marshal.dumps(kind)))
    calls = _Calls(call.bind(outbox), outbox)
    if set_up is not None:
        set_up()
    return calls, tear_down


def _imported(boot: dict[str, Any]) -> list[Any]:
    try:
        return [pickle.loads(boot[part]) for part in ("call", "set_up", "tear_down")]  # noqa: S301 - the parent's
    except Exception as error:
        raise ConfigurationError(
            "A worker process cannot import the handler, a middleware or a worker hook: "
            f"{ended(describe(error))} It "
            "imports afresh, so each must stand at the top level of a module that it can import, not be "
            'defined within `if __name__ == "__main__":`, nor in a package\'s __main__.py.'
        ) from error


def _tear_down(function: Callable[[], Any], answers: Answers) -> None:
    try:
        function()
    except BaseException as error:  # reported, like any hook's: the process is leaving anyway
        answers.send(pipe.TORN_DOWN, pack_error(error))


class _Calls(NamedTuple):
    """What is called for each record, and where that puts what it sends."""

    invoke: Callable[[CopiedMessage, int], object]
    outbox: Outbox | None


class _Batch:
    """One batch: its records in order, until a claim is gone."""

    def __init__(self, calls: _Calls, claims: pipe.Claims, answers: Answers) -> None:
        self._invoke, self._outbox = calls
        self._claims = claims
        self._answers = answers

    def run(self, records: tuple[Copied, ...]) -> None:
        began_s = time.perf_counter()
        # Keys of which a record has failed: the parent has taken over the later ones, too.
        failed: set[int] = set()
        started = 0
        for fields, attempt, key in records:
            if not self._claims.take_one():
                break  # the parent has taken back the rest
            if key not in failed and not self._call(started, CopiedMessage(fields), attempt):
                failed.add(key)
            started += 1
        elapsed_s = time.perf_counter() - began_s
        _flush()  # what was printed is not to wait until the buffer is full, or be lost with this process
        self._answers.send(pipe.DONE, marshal.dumps((started, elapsed_s)))

    def _call(self, place: int, message: CopiedMessage, attempt: int) -> bool:
        """Call the handler for the record of a place; False where it fails."""
        outbox = self._outbox
        if outbox is not None:
            outbox.begin(message)
        try:
            self._invoke(message, attempt)
        except BaseException as error:  # SystemExit and the like too: the parent stops the app
            made = [] if outbox is None else outbox.end()
            self._answers.send(pipe.FAILED, marshal.dumps((place, pack_error(error), made)))
            return False
        if outbox is not None and (made := outbox.end()):
            self._answers.send(pipe.SENT, marshal.dumps((place, made)))
        return True


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        # None, closed or replaced by the user, or at the end of a pipe that nobody reads any more.
        with contextlib.suppress(AttributeError, ValueError, OSError):
            stream.flush()
