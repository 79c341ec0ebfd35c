"""One run of a batch: from its sending to its end, or to the end of the child that runs it.

On the thread that owns the child. Most runs are one write and one read. A run that takes too long is taken
back but for the record that runs: the claims tell which that is, and give the others to one side only. Words
are read after the claims were counted: so of a record before the last one that was started, all was said.
"""

from __future__ import annotations

import marshal
import math
import time
from typing import TYPE_CHECKING, Literal

from ehkafka.errors import WorkerDiedError
from ehkafka.lanes.inbox import KEY
from ehkafka.lanes.order import KeyFailure
from ehkafka.lanes.user_keys import users_key
from ehkafka.wording import seconds
from ehkafka.workers.processes import pipe
from ehkafka.workers.processes.failure import unpack_error
from ehkafka.workers.processes.message import copied

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ehkafka.lanes.attempt import Attempt
    from ehkafka.lanes.decision import Decision
    from ehkafka.lanes.inbox import Entry
    from ehkafka.outputs.making import Made
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
        # How many records have ended, as far as the child has said; how many the inbox knows of.
        self._ended = 0
        self._settled = 0
        self._reported_started = -1
        # What failed and is to be taken over; the names of their keys, of which no later record counts here.
        self._failures: list[tuple[Entry, Decision]] = []
        self._failed_keys: set[object] = set()
        # A failure that the child does not know of: it may have run later records of the key.
        self._is_unknown_there = False
        self._began_s = time.monotonic()
        # How many records were started when looked last; since when, by the clock of deadlines.
        self._started = 1
        self._since_s = pool.now_s()
        self._is_overdue = False
        # When the batch has taken so long that it is taken back; when the child is looked at next.
        patience_s = OVERRUN * pool.settings.batch_s
        self._overrun_s = self._began_s + min(patience_s, pool.deadline_s or patience_s)
        self._check_s = min(self._began_s + CHECK_S, self._overrun_s)

    def run(self) -> tuple[int, float] | None:
        """See the batch to its end; return how many records ran, and for how long. None: the child died."""
        link, reader = self._link, self._link.reader
        if isinstance(key := self._entries[0][KEY], KeyFailure):
            self._fail(key.error)
            self._hand_in(has_ended=True)
            return 0, 0.0
        try:
            link.send_batch(copied(self._entries, self._router))
        except OSError:  # it died, perhaps while idle
            self._died()
            return None
        while True:
            frames = reader.take_until(time.monotonic() + self._wait_s())
            started = None
            has_ended = reader.ended or any(frame.kind == pipe.DONE for frame in frames)
            # Now and then also while words come: each record that sends gives one.
            if not has_ended and (not frames or time.monotonic() >= self._check_s):
                started = self._check()
                frames += reader.take()
            if (done := self._take(frames)) is not None:
                return done
            if reader.ended or (not frames and link.is_dead):
                self._died()
                return None
            if started is not None:
                self._finish(started - 1)
                self._watch(started)
            self._hand_in()

    # -- what the child says ---------------------------------------------------------------------------

    def _take(self, frames: Sequence[pipe.Frame]) -> tuple[int, float] | None:
        """Take the child's words; at the batch's end return how many were started and how long they took."""
        began_s = self._pool.now_s()
        for frame in frames:
            if self._pool.takes_aside(frame):
                continue
            said = marshal.loads(frame.body)  # noqa: S302 - our own child wrote it
            if frame.kind == pipe.DONE:
                started: int
                elapsed_s: float
                started, elapsed_s = said
                self._finish(started)
                self._hand_in(has_ended=True)
                self._note_times(started, elapsed_s)
                return started, elapsed_s
            self._finish(said[0])
            assert self._ended == said[0], "a record counted as ended before all was read of it"
            if frame.kind == pipe.SENT:
                self._end(said[1])
            else:
                self._fail(unpack_error(said[1], self._link.pid), said[2])
        # A wait for room is not the record's that runs now: the child may wait for this thread meanwhile.
        self._since_s += self._pool.now_s() - began_s
        return None

    def _finish(self, place: int) -> None:
        """End the records before this place that have not ended yet: they sent nothing, and did not fail."""
        if self._pool.posting is None and self._pool.history is None:
            self._ended = max(self._ended, place)  # nothing is to be done for each
        while self._ended < place:
            self._end(())

    def _end(self, made: Sequence[Made]) -> None:
        """Take the end of the next record, which has sent this."""
        attempt = self._next()
        if attempt is None:
            return
        try:
            if self._pool.posting is None or not self._pool.posting.ended(attempt, made):
                self._report("finished", attempt, "finished")
                return
        except Exception as error:  # its outputs are not taken
            self._report("finished", attempt, "failed")
            self._failed_here(attempt, error)
            return
        try:
            decision = self._pool.posting.awaits(attempt)
        except Exception as error:  # its outputs were refused at once
            self._failed_here(attempt, error)
        else:
            if decision is not None:
                self._decided(attempt, decision)

    def _failed_here(self, attempt: Attempt, error: Exception) -> None:
        self._is_unknown_there = True
        self._decided(attempt, self._pool.on_failure(attempt, error))

    def _fail(self, error: BaseException, made: Sequence[Made] = ()) -> None:
        """Take the failure of the next record, which had sent this before."""
        attempt = self._next()
        if attempt is None:
            return
        if self._pool.posting is not None:
            self._pool.posting.failed(attempt, made)
        self._report("finished", attempt, "failed")
        self._decided(attempt, self._pool.on_failure(attempt, error))

    def _next(self) -> Attempt | None:
        """Return the attempt that ends next; None where an earlier record of its key has failed."""
        entry = self._entries[self._ended]
        self._ended += 1
        if self._router.name_of(entry) in self._failed_keys:
            return None
        attempt = self._router.attempt_of(entry)
        self._report_started(attempt, self._ended)
        return attempt

    def _decided(self, attempt: Attempt, decision: Decision) -> None:
        self._failures.append((attempt.entry, decision))
        self._failed_keys.add(self._router.name_of(attempt.entry))

    # -- what becomes of it ----------------------------------------------------------------------------

    def _hand_in(self, *, has_ended: bool = False) -> None:
        """Let what has ended leave the inbox, and have taken over what failed, with all later of its key."""
        if self._ended == self._settled and not (self._failures or has_ended):
            return
        hub, inbox = self._pool.hub, self._inbox
        with hub.locked(noted=False) as inboxes:
            if self._is_unknown_there and not has_ended:
                self._withdraw()  # and wait for the end: the child may run a later record of the key now
                return
            if self._failures:
                failures = [(entry, decision, inbox.behind(entry)) for entry, decision in self._failures]
                inboxes.fail_several(inbox, failures, hub.clock())
            inbox.settle(self._ended - self._settled)
            if has_ended:
                inbox.rest()
            inboxes.router.note(inbox)
        self._failures = []
        self._settled = self._ended

    def _withdraw(self) -> None:
        """Let the child start nothing more of its batch. Under the lock."""
        self._overrun_s = math.inf
        for entry in self._inbox.take_back():
            self._router.put(self._inbox, entry)

    def _died(self) -> None:
        how = self._link.bury()
        # Killed at the end of all waiting, the records stay as they are.
        if self._take(self._link.reader.take()) is not None or self._pool.is_given_up:
            return
        with self._pool.hub.locked(noted=False):
            self._withdraw()
            started = self._settled + self._inbox.started()
        self._finish(started - 1)
        was_running = self._ended < started
        if self._is_overdue:
            how = f"killed at its record's deadline of {seconds(self._pool.deadline_s or 0)}"
        self._pool.on_child_death(self._link.pid, how, was_running)
        if was_running:
            self._fail(self._cause(how))
        self._hand_in(has_ended=True)
        self._note_times(started, time.monotonic() - self._began_s)

    def _cause(self, how: str) -> Exception:
        pid = self._link.pid
        if self._is_overdue:
            return TimeoutError(
                f"the attempt passed its deadline of {seconds(self._pool.deadline_s or 0)}, so worker "
                f"process {pid} "
                "was killed"
            )
        return WorkerDiedError(
            f"worker process {pid} ended ({how}) while it ran this record; SIGKILL often means that the "
            "system ran out of memory, SIGSEGV and SIGABRT a crash in native code"
        )

    # -- time ------------------------------------------------------------------------------------------

    def _wait_s(self) -> float:
        """Return how long to wait for the child's next word."""
        wait_s = self._check_s - time.monotonic()
        if self._pool.deadline_s is not None and not self._is_overdue:
            wait_s = min(wait_s, self._since_s + self._pool.deadline_s - self._pool.now_s())
        return max(wait_s, 0.001)

    def _check(self) -> int:
        """Return how many records the child has started; take the others back if it takes too long."""
        now_s = time.monotonic()
        with self._pool.hub.locked(noted=False):
            if now_s >= self._overrun_s:
                self._withdraw()
            started = self._settled + self._inbox.started()
        if started != self._started:
            self._started, self._since_s = started, self._pool.now_s()
        self._check_s = min(now_s + CHECK_S, self._overrun_s)
        return started

    def _watch(self, started: int) -> None:
        """Watch the record that runs: end the child once it has passed its deadline."""
        if (
            self._ended >= started
            or self._router.name_of(entry := self._entries[self._ended]) in self._failed_keys
        ):
            return  # none runs
        self._report_started(self._router.attempt_of(entry), started)
        deadline_s = self._pool.deadline_s
        if deadline_s is not None and not self._is_overdue:
            self._is_overdue = self._pool.now_s() >= self._since_s + deadline_s
            if self._is_overdue:
                self._link.kill()

    def _note_times(self, started: int, elapsed_s: float) -> None:
        times = self._pool.hub.call_times
        if times is not None:
            # A batch that was taken back had met a record that took long: the last that started.
            rest_s = elapsed_s if started == len(self._entries) else self._pool.settings.batch_s
            times.add_run(elapsed_s, started, min(elapsed_s, rest_s))

    def _report_started(self, attempt: Attempt, place: int) -> None:
        if self._reported_started < place:
            self._reported_started = place
            self._report("started", attempt)

    def _report(self, what: Literal["started", "finished"], attempt: Attempt, *outcome: str) -> None:
        history = self._pool.history
        if history is not None:
            epoch = attempt.epoch
            place = (epoch.partition, epoch.number, attempt.message.offset())
            getattr(history, what)(*place, users_key(attempt.key), attempt.number, *outcome)
