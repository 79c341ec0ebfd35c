"""One run of a batch: from its sending to its end, or to the end of the child that runs it.

On the thread that owns the child; it waits there for room, as a handler's thread does. Most runs are one
write and one read. If a run takes too long, all its records but the running one are taken back: the permits
tell which one runs, and give each of the others to one side only. Words are read after the permits were
counted, so the child has reported all about each record before the last one that it started.

A record's outputs are put before its inbox shows that it has ended, so that each key's keep their order. A
failure whose key has later records in the batch ends that and is handed in then: where only the parent knows
of it, the child may run one of these. Other failures are handed in at once.
"""

from __future__ import annotations

import math
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from ehkafka.errors import WorkerDiedError
from ehkafka.events import WorkerProcessDied
from ehkafka.lanes.inbox import KEY
from ehkafka.lanes.order import KeyFailure
from ehkafka.wording import seconds
from ehkafka.workers.processes import wire
from ehkafka.workers.processes.failure import unpack_error
from ehkafka.workers.processes.message import copied

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ehkafka.lanes.decision import Attempt, Decision
    from ehkafka.lanes.inbox import Entry
    from ehkafka.outputs.encoding import Made
    from ehkafka.workers.processes.inbox import ChildInbox
    from ehkafka.workers.processes.link import ProcessLink
    from ehkafka.workers.processes.workers import ProcessWorkers

# A child with a batch is looked at so often: whether it lives, and what it has finished by then. That counts
# at a stop or a revoke, which may begin at any time.
CHECK_S = 0.1
# A batch that takes so many times as long as it should has met a slow record.
OVERRUN = 2.0


class BatchRun:
    """The time from the sending of one batch to its end."""

    def __init__(
        self, pool: ProcessWorkers, link: ProcessLink, inbox: ChildInbox, entries: Sequence[Entry]
    ) -> None:
        self._pool = pool
        self._link = link
        self._inbox = inbox
        self._entries = entries
        self._router = pool.hub.inboxes.router
        keys = [entry[KEY] for entry in entries]
        # Whether anything is to be done for each record that ends.
        self._is_each = (
            pool.outlet is not None or pool.history is not None or KeyFailure in set(map(type, keys))
        )
        # The places of all records with a later one of their key, perhaps of others as well.
        last = dict(zip(keys, range(len(keys)), strict=True))
        is_repeated = len(last) < len(keys)
        self._followed = {n for n, key in enumerate(keys) if last.get(key) != n} if is_repeated else set()
        # How many records have ended, as far as the child has said; how many of them the inbox knows of.
        self._ended = self._handed_in = 0
        # The places of what failed, or waits for its outputs, and is to be taken over; the names of the keys
        # that failed and have later records here, of which none counts.
        self._failures: list[tuple[int, Decision]] = []
        self._failed_keys: set[object] = set()
        self._began_s = time.monotonic()
        # How long the batch may take before it is taken back; when the child is looked at next.
        self._patience_s = min(OVERRUN * pool.settings.batch_s, pool.deadline_s or math.inf)
        self._check_s = self._began_s + min(CHECK_S, self._patience_s)
        # How many records were started when looked last; since when, by the clock of deadlines.
        self._started = 1
        self._since_s = pool.now_s()
        self._is_overdue = False
        # The call that runs, as history and outlet know it: where a look has found that it takes long.
        self._call: ExitStack | None = None
        # At the end: how many records ran, and for how long.
        self._done: tuple[int, float] | None = None

    def run(self) -> tuple[int, float]:
        """See the batch, or the child, to its end; return how many records ran, and for how long."""
        link = self._link
        link.send(wire.BATCH, copied(self._entries, self._router.attempts), self._followed)
        while self._done is None:
            words = link.receive(max(0.001, self._check_s - time.monotonic()))
            if link.is_gone:
                self._died()
                break
            started = 0
            has_ended = any(word[0] == wire.DONE for word in words)
            # Now and then also while words come: each record that sends gives one.
            if not has_ended and (not words or time.monotonic() >= self._check_s):
                started = self._check()
                words += link.receive(0.0)
            self._take(words)
            if started and self._done is None:
                self._finish(started - 1)
                self._watch(started)
            self._hand_in()
        assert self._done is not None
        return self._done

    # -- what the child says ---------------------------------------------------------------------------

    def _take(self, words: Sequence[wire.Word]) -> None:
        """Take the child's words."""
        began_s = self._pool.now_s()
        for kind, place, *said in words:
            self._finish(place)
            if kind == wire.DONE:
                self._end_batch(place, *said)
                continue
            assert self._ended == place, "a record counted as ended before all was read of it"
            made, packed = said
            self._end(made, None if packed is None else unpack_error(packed, self._link.pid))
        # A wait for room is not the record's that runs now: the child may wait for this thread meanwhile.
        self._since_s += self._pool.now_s() - began_s

    def _finish(self, place: int) -> None:
        """End the records before this place that have not ended yet: they sent nothing, and did not fail."""
        if not self._is_each:
            self._ended = max(self._ended, place)
        while self._ended < place:
            self._end()

    def _end(self, made: Sequence[Made] = (), error: BaseException | None = None) -> None:
        """Take the end of the next record: what its call has sent, and what it raised."""
        place, options = self._ended, self._pool.options
        entry = self._entries[place]
        self._ended += 1
        if self._failed_keys and self._router.name_of(entry) in self._failed_keys:
            return
        if isinstance(key := entry[KEY], KeyFailure):
            error = key.error  # it was not run
        attempt = self._router.attempt_of(entry)
        trace = None if error is None else error.__traceback__
        try:
            self._report(attempt, made, error)
            waits = None if options.deferrals is None else options.deferrals.awaits(attempt)
            if waits is not None:
                self._failures.append((place, waits))
        except BaseException as raised:  # SystemExit and the like too: `Failures` stops the app for them
            if raised is error:
                error.__traceback__ = trace  # where it was raised: not here
            self._failures.append((place, options.on_failure(attempt, raised)))
            if place in self._followed:
                self._failed_keys.add(self._router.name_of(entry))

    def _report(self, attempt: Attempt, made: Sequence[Made], error: BaseException | None) -> None:
        """Take the end of a call as if it had run here. Raises what it raised, or why nothing is sent."""
        outlet = self._pool.outlet
        if not made and error is None and self._pool.history is None and self._call is None:
            return
        call, self._call = self._begun(attempt), None
        with call:
            if error is not None:
                raise error
            if outlet is not None and made:
                outlet.call_of(attempt.message).add(made, attempt.message)

    def _begun(self, attempt: Attempt) -> ExitStack:
        """Return the call as history and outlet know it, as if it ran here."""
        if self._call is None:
            self._call = ExitStack()
            if self._pool.history is not None:
                self._call.enter_context(self._pool.history(attempt.entry, attempt.number))
            if (outlet := self._pool.outlet) is not None:
                self._call.enter_context(outlet.begin(attempt.entry))
        return self._call

    # -- what becomes of it ----------------------------------------------------------------------------

    def _hand_in(self) -> None:
        """Let what has ended leave the inbox, and have taken over what failed, with all later of its key."""
        hub, inbox, is_over = self._pool.hub, self._inbox, self._done is not None
        ended = self._ended - self._handed_in
        if not (ended or is_over):
            return
        with hub.locked(noted=False) as inboxes:
            if self._failed_keys or is_over:
                inbox.withdraw()
            if self._failed_keys and not is_over:
                return
            if self._failures:
                entries = self._entries
                failures = [(entries[place], what, self._behind(place)) for place, what in self._failures]
                inboxes.waiting.fail(inbox, failures, hub.clock())
            shown = inbox.head
            assert isinstance(shown, list)
            inbox.head = None if is_over else shown[ended - len(self._failures) :]
            inboxes.router.note(inbox)
        self._handed_in, self._failures = self._ended, []

    def _behind(self, place: int) -> list[Entry]:
        """Return the records of a failed one's key that the child has run behind it."""
        name_of = self._router.name_of
        name = name_of(self._entries[place])
        ran = self._entries[place + 1 : self._ended] if name in self._failed_keys else ()
        return [one for one in ran if name_of(one) == name]

    def _died(self) -> None:
        pool, pid, how = self._pool, self._link.pid, self._link.bury()
        if pool.is_given_up:
            self._done = 0, 0.0  # killed at the end of all waiting, its records stay as they are
            return
        with pool.hub.locked(noted=False):
            self._inbox.withdraw()
            started = self._handed_in + self._inbox.begun()
        self._finish(started - 1)
        was_running = self._ended < started
        cause: Exception = WorkerDiedError(
            f"worker process {pid} ended ({how}) while it ran this record; SIGKILL often means that the "
            "system ran out of memory, SIGSEGV and SIGABRT a crash in native code"
        )
        if self._is_overdue:
            deadline = seconds(pool.deadline_s or 0)
            how = f"killed at its record's deadline of {deadline}"
            text = f"the attempt passed its deadline of {deadline}, so worker process {pid} was killed"
            cause = TimeoutError(text)
        pool.emit(WorkerProcessDied(pool.name, pid, how, was_running))
        if was_running:
            self._end(error=cause)
        self._end_batch(started, time.monotonic() - self._began_s)
        self._hand_in()

    def _end_batch(self, started: int, elapsed_s: float) -> None:
        self._done = started, elapsed_s
        if (times := self._pool.hub.call_times) is not None:
            # A batch that was taken back had met a record that took long: the last that started.
            rest_s = elapsed_s if started == len(self._entries) else self._pool.settings.batch_s
            times.add_run(elapsed_s, started, min(elapsed_s, rest_s))

    # -- time ------------------------------------------------------------------------------------------

    def _check(self) -> int:
        """Return how many records the child has started; take the others back if it takes too long."""
        now_s = time.monotonic()
        with self._pool.hub.locked(noted=False):
            if now_s >= self._began_s + self._patience_s:
                self._inbox.withdraw()
            started = self._handed_in + self._inbox.begun()
        if started != self._started:
            self._started, self._since_s = started, self._pool.now_s()
        self._check_s = now_s + min(CHECK_S, self._pool.deadline_s or CHECK_S)
        return started

    def _watch(self, started: int) -> None:
        """Let the history know what runs, and end the child once that has passed its deadline."""
        deadline_s = self._pool.deadline_s
        if self._ended >= started:
            return
        if self._router.name_of(entry := self._entries[self._ended]) not in self._failed_keys:
            self._begun(self._router.attempt_of(entry))
        if deadline_s is not None and not self._is_overdue:
            self._is_overdue = self._pool.now_s() >= self._since_s + deadline_s
            if self._is_overdue:
                self._link.kill()
