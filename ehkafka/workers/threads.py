"""Threads: the workers of a blocking handler, each the consumer of one inbox.

The protocol is that of `lanes.inbox`: a thread shows a record, removes it, calls the handler, and then shows
the next one. It takes no lock for that and reports nothing. What fails, or is deferred, is taken over by the
dispatcher; the thread waits until that is done.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ehkafka.lanes.inbox import MESSAGE
from ehkafka.records.deferral import DEFERRED
from ehkafka.workers.thread_pool import ThreadPool, wait_until_taken
from ehkafka.workers.thread_waits import waits_of_this_thread

if TYPE_CHECKING:
    from ehkafka.lanes.decision import Decision
    from ehkafka.lanes.inbox import Entry, Inbox
    from ehkafka.records import Message
    from ehkafka.workers.hub import Hub
    from ehkafka.workers.protocol import Invoke, PlainCall, PoolOptions
    from ehkafka.workers.rate import Pace
    from ehkafka.workers.thread_pool import Worker


class ThreadWorkers(ThreadPool):
    """Daemon threads that call a handler for one record after another."""

    def __init__(
        self, hub: Hub, options: PoolOptions, *, invoke: Invoke, plain: PlainCall | None = None
    ) -> None:
        """`plain` calls the handler for the first time with a message whose key is unread; see `lanes.runs`.

        None where it needs more than the message.
        """
        super().__init__(hub, options)
        self._invoke = invoke
        # Called with no entry, and where it is None with nothing.
        self._plain: Any = plain
        hub.inboxes.router.unread.is_bare = plain is not None and hub.pace is None
        self._router = hub.inboxes.router
        self._on_failure = options.on_failure
        self._deferrals = options.deferrals

    def _consume(self, worker: Worker, inbox: Inbox) -> None:
        hub = self._hub
        if inbox is hub.inboxes.inboxes[0]:
            hub.count_waits = waits_of_this_thread()
        while True:
            if hub.pace is not None:
                self._run_paced(inbox, hub.pace)
            elif hub.call_times is not None:
                self._run_timed(inbox)
            else:
                self._run(inbox)
            # Shown until here: only now does the dispatcher count the last record as finished.
            inbox.head = None
            # It may have come meanwhile, or calls are to be timed from now on. What has no token when the app
            # has stopped is left.
            if inbox.q and not (hub.closed and hub.pace is not None):
                continue
            if self._is_to_leave(worker, inbox):
                return
            hub.note_idle(inbox)
            self._sleep(worker, inbox)

    def _run(self, inbox: Inbox) -> None:
        """Run what waits, until nothing does. The hot path: see DESIGN.md before adding a line to it."""
        hub, invoke, attempts, q = self._hub, self._invoke, self._router.attempts, inbox.q
        plain = self._plain
        one: Any
        while hub.call_times is None:
            try:
                inbox.head = q[0]  # shown before it leaves the queue
                one = q.popleft()
            except IndexError:
                # Taking back replaces the queue: what was put there again is in the new one.
                if inbox.q is q:
                    return
                q = inbox.q
                continue
            try:
                # A record whose key is unread is here as its message: an entry for each would be one more
                # object that Python's collector looks through.
                if type(one) is tuple:
                    invoke(one, 1 if not attempts else self._number(one))
                else:
                    plain(one)
            except BaseException as error:  # SystemExit and the like too: `Failures` stops the app for them
                self._failed(inbox, self._entry_of(inbox, one), error)
            else:
                if DEFERRED:
                    self._claim(inbox, one)

    def _run_timed(self, inbox: Inbox) -> None:
        """Do the same, and count how long each call takes."""
        while self._run_next(inbox):
            pass

    def _run_paced(self, inbox: Inbox, pace: Pace) -> None:
        """Do the same, with a token for each record; what waits for one is not shown."""
        while inbox.q:
            if pace.take():
                if not self._run_next(inbox):
                    pace.give_back()
                # The next token may be long in coming: until then this record must not seem to run.
                inbox.head = None
                continue
            # Sleep until `Hub.watch` finds a token.
            inbox.asleep = True
            if inbox.q and not (pace.is_open or self._hub.closed):
                inbox.gate.acquire()
            inbox.asleep = False
            if self._hub.closed:
                return

    def _run_next(self, inbox: Inbox) -> bool:
        """Run the next record, timed if that is wanted; False where there is none."""
        one: Any
        while True:
            q = inbox.q
            try:
                inbox.head = q[0]
                one = q.popleft()
            except IndexError:
                if inbox.q is q:
                    return False
                continue
            break
        began_s = time.perf_counter()
        try:
            if type(one) is tuple:
                self._invoke(one, self._number(one))
            else:
                self._plain(one)
        except BaseException as error:  # as in `_run`
            self._note_time(began_s)
            self._failed(inbox, self._entry_of(inbox, one), error)
        else:
            self._note_time(began_s)
            if DEFERRED:
                self._claim(inbox, one)
        return True

    def _note_time(self, began_s: float) -> None:
        if (times := self._hub.call_times) is not None:
            times.add(time.perf_counter() - began_s)

    def _number(self, entry: Entry) -> int:
        known = self._router.attempts.get(id(entry[MESSAGE]))
        return 1 if known is None else known.failed + 1

    def _entry_of(self, inbox: Inbox, one: Entry | Message) -> Entry:
        """Return the entry of what this thread runs. Waits for the lock where that is a message."""
        if isinstance(one, tuple):
            return one
        # Its run may be read or taken apart at any time: only under the lock is it known where it is.
        with self._hub.locked(noted=False) as inboxes:
            entry = inboxes.router.unread.entry_of(inbox, one)
        assert entry is not None
        return entry

    def _failed(self, inbox: Inbox, entry: Entry, error: BaseException) -> None:
        # Here, without the lock: what decides may be the user's code.
        attempt = self._router.attempt_of(entry)
        # An answer to a call that failed counts for nothing, whichever of the two comes first.
        if DEFERRED and self._deferrals is not None:
            self._deferrals.void(attempt)
        self._hand_over(inbox, entry, self._on_failure(attempt, error))

    def _claim(self, inbox: Inbox, one: Entry | Message) -> None:
        """Let a record wait for its answer, if it is one of those that are deferred."""
        message = one[MESSAGE] if isinstance(one, tuple) else one
        if self._deferrals is None or id(message) not in DEFERRED:
            return
        entry = self._entry_of(inbox, one)
        try:
            decision = self._deferrals.claims(self._router.attempt_of(entry))
        except BaseException as error:  # that of an answer which came before the handler had returned
            self._failed(inbox, entry, error)
            return
        if decision is not None:
            self._hand_over(inbox, entry, decision)

    def _hand_over(self, inbox: Inbox, entry: Entry, decision: Decision) -> None:
        self._hub.fail(inbox, entry, decision)
        # To show the next record would count this one as finished; and the next may be of the same key.
        wait_until_taken(inbox)
