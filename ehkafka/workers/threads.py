"""Threads: the workers of a blocking handler, each the consumer of one inbox.

The protocol is that of `lanes.inbox`: a thread shows a record, removes it, calls the handler, and then shows
the next one. It takes no lock for that and reports nothing. What fails, or is deferred, is taken over by the
dispatcher; the thread waits until that is done.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ehkafka.lanes.inbox import MESSAGE
from ehkafka.records.deferral import DEFERRED
from ehkafka.workers.thread_pool import ThreadPool, wait_until_taken

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.lanes.decision import Decision
    from ehkafka.lanes.inbox import Entry, Inbox
    from ehkafka.records import Message
    from ehkafka.workers.hub import Hub
    from ehkafka.workers.protocol import Invoke, PlainCall, PoolOptions


class ThreadWorkers(ThreadPool):
    """Daemon threads that call a handler for one record after another."""

    def __init__(
        self, hub: Hub, options: PoolOptions, *, invoke: Invoke, plain: PlainCall | None = None
    ) -> None:
        """`plain` calls a handler for the first time with a message whose key is unread; see `lanes.unread`.

        None where it needs more than the message.
        """
        super().__init__(hub, options)
        self._invoke = invoke
        # Called with no entry, and where it is None with nothing.
        self._plain: Any = plain
        hub.inboxes.router.unread.is_bare = plain is not None and hub.pace is None
        self._router = hub.inboxes.router

    def _consume(self, inbox: Inbox) -> None:
        hub, pace = self._hub, self._hub.pace
        if inbox is hub.inboxes.inboxes[0]:
            hub.count_waits = waits_of_this_thread()
        while True:
            if pace is None:
                self._run(inbox)
            while pace is not None and inbox.q and pace.take():
                if not self._run(inbox, once=True):
                    pace.give_back()
            # Shown until here: only now does the dispatcher count the last record as finished.
            inbox.head = None
            if not self._rest(inbox):
                return

    def _run(self, inbox: Inbox, *, once: bool = False) -> bool:
        """Run what waits, until nothing does; with `once` one record: True if there was one.

        The hot path: see DESIGN.md before adding a line to it.
        """
        hub, invoke, attempts, q = self._hub, self._invoke, self._router.attempts, inbox.q
        plain, times, unread = self._plain, hub.call_times, self._router.unread
        if times is not None:
            invoke, plain = times.timed(invoke), times.timed(plain)
        one: Any
        while hub.call_times is times:
            try:
                inbox.head = one = q[0]  # shown before it leaves the queue
                if unread.ahead is one:
                    hub.inspect(inbox)
                    wait_until_taken(inbox)
                    return False
                q.popleft()
            except IndexError:
                return False  # taking back replaces the queue: the caller looks at the new one
            try:
                # A record whose key is unread is here as its message: an entry for each would be one more
                # object that Python's collector looks through.
                if type(one) is tuple:
                    invoke(one, 1 if not attempts else self._router.attempt_of(one).number)
                else:
                    plain(one)
            except BaseException as error:  # SystemExit and the like too: `Failures` stops the app for them
                self._finish(inbox, one, error)
            else:
                if DEFERRED and id(one[MESSAGE] if type(one) is tuple else one) in DEFERRED:
                    self._finish(inbox, one)
            if once:
                return True
        return False

    def _finish(self, inbox: Inbox, one: Entry | Message, error: BaseException | None = None) -> None:
        """Have a record taken over that has failed, or is deferred. Decided here: that may be user code."""
        deferrals = self._options.deferrals
        entry: Entry | None
        if isinstance(one, tuple):
            entry = one
        else:
            # Its run may be read or taken apart at any time: only under the lock is it known where it is.
            with self._hub.locked(noted=False) as inboxes:
                entry = inboxes.router.unread.entry_of(inbox, one)
            assert entry is not None
        attempt = self._router.attempt_of(entry)
        decision: Decision | None = None
        if error is None and deferrals is not None:
            try:
                decision = deferrals.awaits(attempt)
            except BaseException as raised:  # that of an answer which came before the handler had returned
                error = raised
        if error is not None:
            # An answer to a call that failed counts for nothing, whichever of the two comes first.
            if DEFERRED and deferrals is not None:
                deferrals.void(attempt)
            decision = self._options.on_failure(attempt, error)
        if decision is not None:
            self._hub.fail(inbox, entry, decision)
            # To show the next record would count this one as finished; and the next may be of the same key.
            wait_until_taken(inbox)


def waits_of_this_thread() -> Callable[[], int | None]:
    """Return what counts, on any thread, how often the calling thread has given up its core to wait.

    A thread that computes does so for the interpreter's lock alone, each few milliseconds; one that sleeps or
    asks a server once a call at least, however busy the machine is. None where the system does not count it
    (Windows, macOS), and after the thread has ended.
    """
    status = Path(f"/proc/self/task/{threading.get_native_id()}/status")

    def waits() -> int | None:
        try:
            lines = status.read_bytes().splitlines()
        except OSError:  # there is no such file, or no such thread any more
            return None
        counts = (line.split()[1] for line in lines if line.startswith(b"voluntary_ctxt_switches:"))
        return int(next(counts, b"0"))

    return waits
