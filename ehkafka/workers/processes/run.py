"""One run of a batch: from its sending to its end, or to the end of the child that runs it.

On the thread that owns the child. Most runs are one write and one read. A run that takes too long is taken
back but for the record that runs: the claims tell which that is, and give the others to one side only.
"""

from __future__ import annotations

import marshal
import time
from typing import TYPE_CHECKING

from ehkafka.errors import WorkerDiedError
from ehkafka.wording import seconds
from ehkafka.workers.processes import pipe
from ehkafka.workers.processes.failure import unpack_error

if TYPE_CHECKING:
    from ehkafka.workers.processes.batch import Batch, BatchSize
    from ehkafka.workers.processes.link import ProcessLink
    from ehkafka.workers.processes.workers import ProcessWorkers

# A child that is slow to start, or held up, is looked at so often whether it lives.
ALIVE_CHECK_S = 0.25
# A batch whose partition is being cut is taken back so soon after that: it may last for seconds, and what the
# child has finished by then must count.
CUT_CHECK_S = 0.1
# A batch that takes so many times as long as it should has met a slow record.
OVERRUN = 2.0


class BatchRun:
    """The time from the sending of one batch to its end."""

    def __init__(self, pool: ProcessWorkers, link: ProcessLink, batch: Batch, size: BatchSize) -> None:
        self._pool = pool
        self._link = link
        self._batch = batch
        self._size = size
        self._offered = batch.records
        # How many claims came back; None before the batch was taken back.
        self._taken_back: int | None = None
        # When it was sent; beside it, when the record that runs now was first known to run.
        self._began_s = time.monotonic()
        # By the clock of deadlines.
        self._since_s = pool.now_s()
        self._is_overdue = False
        # When the batch has taken so long that a slow record is to be looked for.
        self._overrun_s = self._began_s + self._patience_s()

    def run(self) -> None:
        """Send the batch and see it to its end, or the child's."""
        batch, link, reader = self._batch, self._link, self._link.reader
        try:
            link.send_batch(batch.take_fields(), batch.records, batch.size_bytes)
        except OSError:  # it died, perhaps while idle
            self._died()
            return
        wait_s = self._first_check_s()
        while True:
            frames = reader.take_until(time.monotonic() + wait_s)
            started = None
            has_ended = reader.ended or any(frame.kind == pipe.DONE for frame in frames)
            # Also while frames come: each record that sends gives one.
            if not has_ended and self._is_to_be_taken_back():
                started = self._take_back()
                # What was sent, or failed, before the last claim was taken is in the pipe by now.
                frames += reader.take()
            if self._take_frames(frames):
                return
            if reader.ended or link.is_dead:
                self._died()
                return
            if started is not None:
                batch.keep_running(started)
            self._pool.exchange.settle()
            self._pool.exchange.wake_one()
            wait_s = self._next_check_s()

    def _patience_s(self) -> float:
        overrun_s = OVERRUN * self._pool.settings.batch_s
        return min(overrun_s, self._pool.deadline_s or overrun_s)

    def _first_check_s(self) -> float:
        # Now and then: a stop or a revoke may begin meanwhile, and what has not started is to be left.
        return min(max(self._overrun_s - time.monotonic(), 0.001), CUT_CHECK_S)

    def _is_to_be_taken_back(self) -> bool:
        return self._taken_back is None and (time.monotonic() >= self._overrun_s or self._batch.is_cut())

    def _take_back(self) -> int | None:
        """Take back what the child has not started; return how many it has, None where nothing changed."""
        claims = self._link.claims
        if claims.left() == self._offered:
            return None
        self._taken_back = claims.take_back()
        if self._offered > 1:
            self._since_s = self._pool.now_s()
        return self._offered - self._taken_back

    def _take_frames(self, frames: list[pipe.Frame]) -> bool:
        """Take what the child says; True when the batch has ended."""
        began_s = self._pool.now_s()
        for frame in frames:
            if self._pool.takes_aside(frame):
                continue
            if frame.kind == pipe.SENT:
                self._batch.end_sending(*marshal.loads(frame.body))  # noqa: S302 - our own child wrote it
            if frame.kind == pipe.DONE:
                started, elapsed_s = marshal.loads(frame.body)  # noqa: S302 - our own child wrote it
                self._batch.end(started)
                self._size.note(started, elapsed_s)
                self._pool.exchange.note_work(elapsed_s, started)
                self._note_times(elapsed_s, started)
                return True
            if frame.kind == pipe.FAILED:
                number, packed, made = marshal.loads(frame.body)  # noqa: S302 - our own child wrote it
                self._batch.fail(number, unpack_error(packed, self._link.pid), made)
        # A wait for room is not the record's that runs now: the child may wait for this thread meanwhile.
        self._since_s += self._pool.now_s() - began_s
        return False

    def _note_times(self, elapsed_s: float, started: int) -> None:
        times = self._pool.exchange.call_times
        if times is not None:
            # A batch that was taken back had met a record that took long: the last that started.
            rest_s = elapsed_s if self._taken_back is None else self._pool.settings.batch_s
            times.add_run(elapsed_s, started, min(elapsed_s, rest_s))

    def _next_check_s(self) -> float:
        """Kill a child whose record is overdue; return how long to wait for its next word."""
        deadline_s = self._pool.deadline_s
        if self._taken_back is None:
            return self._first_check_s()
        if deadline_s is None:
            return ALIVE_CHECK_S
        left_s = self._since_s + deadline_s - self._pool.now_s()
        if not self._batch.runs(self._batch.records):
            return ALIVE_CHECK_S
        if left_s <= 0 and not self._is_overdue:
            self._is_overdue = True
            self._link.kill()
        return min(max(left_s, 0.001), ALIVE_CHECK_S) if not self._is_overdue else ALIVE_CHECK_S

    def _died(self) -> None:
        how = self._link.bury()
        if self._take_frames(self._link.reader.take()) or self._pool.is_given_up:
            return  # killed by us, at the end of all waiting: the records stay as they are
        returned = (self._taken_back or 0) + self._link.claims.take_back()
        started = self._offered - returned
        self._note_times(time.monotonic() - self._began_s, started)
        if self._is_overdue:
            how = f"killed at its record's deadline of {seconds(self._pool.deadline_s or 0)}"
        self._pool.on_child_death(self._link.pid, how, self._batch.runs(started))
        self._batch.die(started, self._cause(how))

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
