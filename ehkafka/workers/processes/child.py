"""The main function of a worker process: takes batches from its parent and calls the handler.

Started afresh by `link`, never forked: no client, thread or lock of the parent's is here. The main
thread runs the user's code; one more does nothing but wait for the parent's death, which ends this process at
once, whatever the handler does. SIGINT and SIGTERM are left to the parent, who drains.

Before each record a permit is taken, so that the parent knows at any moment which record runs. What a record
has sent, or failed with, is reported before the next permit is taken, so the parent knows that a record that
ended without a report sent nothing. A record that fails ends its batch, if that has a later one of its key.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import pickle
import select
import signal
import socket
import sys
import threading
import time
from multiprocessing import spawn
from typing import TYPE_CHECKING, Any

from ehkafka.errors import ConfigurationError, describe
from ehkafka.records.deferral import refuse_to_defer
from ehkafka.wording import ended
from ehkafka.workers.processes import wire
from ehkafka.workers.processes.failure import pack_error
from ehkafka.workers.processes.logs import is_set_up
from ehkafka.workers.processes.message import CopiedMessage
from ehkafka.workers.processes.outbox import Outbox

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    from ehkafka.workers.processes.message import Copied

# True while the program's main module is imported again: an app must not be started by that.
importing_main = False
# Asks the parent's app to stop; None in a process that is no worker. Set once, before the user's code.
stop_parent: Callable[[Any, float | None], None] | None = None


def main(connected: int, permits: int, dumps: int) -> None:
    """Serve the parent until it asks this process to leave. The arguments are file descriptors."""
    global stop_parent  # noqa: PLW0603 - what this process is
    for fd in (connected, permits, dumps):
        os.set_inheritable(fd, False)
    _leave_signals_to_the_parent()
    refuse_to_defer(
        "a record cannot be deferred in a worker process: its token could not leave it; use threads or an "
        "async handler for that"
    )
    threading.Thread(target=_die_with, args=(connected,), name="ehkafka-lifeline", daemon=True).start()
    parent = wire.Wire(socket.socket(fileno=connected))
    stop_parent = lambda *how: parent.send(wire.STOP, *how, waits=False)  # noqa: E731 - one of many
    (_, booted), *_ = parent.receive()
    try:
        boot = pickle.loads(booted)  # noqa: S301 - the parent wrote it
        caller, tear_down = _boot(boot, parent)
    except BaseException as error:
        parent.send(wire.REFUSED, pack_error(error))
        raise SystemExit(1) from error
    faulthandler.register(signal.SIGUSR1, file=dumps, all_threads=True)
    parent.send(wire.READY, boot["logs"] and not is_set_up())
    _serve(parent, caller, wire.Permits(permits))
    if tear_down is not None:
        try:
            tear_down()
        except BaseException as error:  # reported, like any hook's: the process is leaving anyway
            parent.send(wire.TORN_DOWN, pack_error(error))


def _leave_signals_to_the_parent() -> None:
    # A function, not SIG_IGN: what a handler executes must not inherit that it ignores them.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: None)
    # The parent blocked them, so that none could end this process before it got here.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})


def _die_with(connected: int) -> None:
    """Wait for the end of what the parent alone holds open."""
    hung_up = select.poll()
    hung_up.register(connected, 0)
    hung_up.poll()
    os._exit(0)


def _boot(boot: dict[str, Any], parent: wire.Wire) -> tuple[Caller, Callable[[], object] | None]:
    global importing_main  # noqa: PLW0603 - the import is a state of the process
    importing_main = True
    try:
        spawn.prepare(boot["main"])
    finally:
        importing_main = False
    try:
        call, set_up, tear_down = pickle.loads(boot["code"])  # noqa: S301 - the parent's
    except Exception as error:
        raise ConfigurationError(
            "A worker process cannot import the handler, a middleware or a worker hook: "
            f"{ended(describe(error))} "
            "Put each at the top level of a module that a new process can import, not under "
            '`if __name__ == "__main__":` or in a package\'s __main__.py.'
        ) from error
    outbox = None if call.maker is None else Outbox(call.maker)
    if set_up is not None:
        set_up()
    return Caller(parent, call.bind(outbox), outbox), tear_down


def _serve(parent: wire.Wire, caller: Caller, permits: wire.Permits) -> None:
    while True:
        for word in parent.receive():
            if word[0] == wire.LEAVE:
                return
            _, records, followed = word
            caller.run(records, followed, permits)


class Caller:
    """Calls the handler for each record of a batch, in order, until it has to stop."""

    def __init__(
        self, parent: wire.Wire, invoke: Callable[[CopiedMessage, int], object], outbox: Outbox | None
    ) -> None:
        """`outbox`: where `invoke` puts what it sends."""
        self._parent = parent
        self._invoke = invoke
        self._outbox = outbox

    def run(self, records: Sequence[Copied], followed: Container[int], permits: wire.Permits) -> None:
        """Run one batch. `followed` are the places of records with a later one of their key."""
        began_s = time.perf_counter()
        started, goes_on = 0, True
        # Without a permit the parent has taken back the rest.
        while goes_on and started < len(records) and permits.take():
            message, attempt = CopiedMessage(records[started]), records[started][-1]
            goes_on = not attempt or self._call(started, message, attempt) or started not in followed
            started += 1
        elapsed_s = time.perf_counter() - began_s
        _flush()  # what was printed is not to wait until the buffer is full, or be lost with this process
        self._parent.send(wire.DONE, started, elapsed_s)

    def _call(self, place: int, message: CopiedMessage, attempt: int) -> bool:
        """Call the handler for the record of a place; False where it fails."""
        outbox, raised = self._outbox, None
        if outbox is not None:
            outbox.begin(message)
        try:
            self._invoke(message, attempt)
        except BaseException as error:  # SystemExit and the like too: the parent stops the app
            raised = pack_error(error)
        made = () if outbox is None else outbox.end(has_failed=raised is not None)
        if made or raised is not None:
            self._parent.send(wire.ENDED, place, made, raised)
        return raised is None


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        # None, closed or replaced by the user, or at the end of a pipe that nothing reads any more.
        with contextlib.suppress(AttributeError, ValueError, OSError):
            stream.flush()
