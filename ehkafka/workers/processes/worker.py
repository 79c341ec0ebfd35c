"""One worker of a process pool: a thread of the parent's that owns one child.

Takes ready lanes, sends their records to the child as a batch, and hands the lanes in as the child gets on. A
batch that takes too long is taken back but for the record that runs, so that one slow record delays its own
key alone. A child that dies is replaced; the record that it ran is charged with a failed attempt.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from ehkafka.errors import WorkerDiedError, describe
from ehkafka.headers.size import size_of
from ehkafka.lanes.order import KeyFailure
from ehkafka.workers.processes import pipe
from ehkafka.workers.processes.batch import Batch, BatchSize
from ehkafka.workers.processes.failure import unpack_error
from ehkafka.workers.processes.link import ProcessLink
from ehkafka.workers.processes.run import ALIVE_CHECK_S, BatchRun

if TYPE_CHECKING:
    from ehkafka.lanes.lane import Lane
    from ehkafka.workers.processes.workers import ProcessWorkers

# Starts in a row that may fail before the app is stopped, and the wait after the first; it doubles.
STARTS_MAX = 5
START_AGAIN_S = 0.1


class ProcessWorker:
    """A thread and its child. Everything but `kill` and `stack` is the thread's own."""

    def __init__(self, pool: ProcessWorkers, number: int) -> None:
        self._pool = pool
        self._exchange = pool.exchange
        self._link: ProcessLink | None = None
        self._size = BatchSize(pool.settings.batch_records_max, pool.settings.batch_s)
        # Set by `resize`: leave after the batch.
        self.is_surplus = False
        # Read by `stack`.
        self._is_busy = False
        self.start_error: BaseException | None = None
        self.is_up = threading.Event()
        # A daemon: a child that is not to be ended must not keep the parent from leaving.
        self.thread = threading.Thread(target=self._main, name=f"{pool.name}-{number}", daemon=True)

    @property
    def pid(self) -> int | None:
        """The child's process id, while there is one."""
        link = self._link
        return None if link is None else link.pid

    def kill(self) -> None:
        """End the child at once. Any thread."""
        link = self._link
        if link is not None:
            link.kill()

    def stack(self, ends_s: float) -> str | None:
        """Return where the child is if it has a batch, as far as it tells by then. Any thread."""
        link = self._link
        return link.stack(ends_s) if self._is_busy and link is not None else None

    def _main(self) -> None:
        try:
            self._link = self._launch()
        except BaseException as error:  # handed to `start`, which raises it
            self.start_error = error
            return
        finally:
            self.is_up.set()
        try:
            self._work()
        except BaseException as error:  # the child cannot be started again, or a defect of the engine
            self._pool.on_death(error)
        finally:
            self._end()

    # --- the child's life --------------------------------------------------------------------------

    def _launch(self) -> ProcessLink:
        """Start a child and wait until it is ready. Raises what its start raises, or `WorkerDiedError`."""
        link = ProcessLink(self._pool.boot)
        try:
            self._await_ready(link)
        except BaseException:
            link.close()
            raise
        return link

    def _await_ready(self, link: ProcessLink) -> None:
        while not self._pool.is_given_up:
            for frame in link.reader.take_until(time.monotonic() + ALIVE_CHECK_S):
                if self._pool.takes_aside(frame):
                    continue
                if frame.kind == pipe.REFUSED:
                    raise unpack_error(frame.body, link.pid)
                if frame.body == pipe.SILENT:
                    self._pool.on_silent_child()
                link.is_ready = True
                return
            if link.reader.ended or link.is_dead:
                raise WorkerDiedError(
                    f"A worker process of {self._pool.name} ended ({link.bury()}) before it was ready. Look "
                    "at what it wrote to stderr, and at what its modules do when they are imported."
                )
        raise WorkerDiedError(f"A worker process of {self._pool.name} was not ready when the app stopped.")

    def _launch_again(self) -> ProcessLink | None:
        """Replace a dead child; None when the pool closes meanwhile."""
        wait_s = START_AGAIN_S
        for attempt in range(1, STARTS_MAX + 1):
            if self._pool.closing.is_set() and not self._exchange.dispatcher.ready:
                return None
            try:
                return self._launch()
            except BaseException as error:
                if attempt == STARTS_MAX:
                    raise WorkerDiedError(
                        f"A worker process of {self._pool.name} could not be started again, {STARTS_MAX} "
                        f"times in a row: {describe(error)}"
                    ) from error
            self._pool.closing.wait(wait_s)
            wait_s *= 2
        return None

    def _end(self) -> None:
        """Let the child run its tear-down, for as long as somebody waits for it."""
        link = self._link
        if link is None:
            return
        link.ask_to_end()
        while not self._pool.is_given_up and not link.reader.ended and not link.is_dead:
            for frame in link.reader.take_until(time.monotonic() + ALIVE_CHECK_S):
                if not self._pool.takes_aside(frame) and frame.kind == pipe.TORN_DOWN:
                    self._pool.on_tear_down_error(unpack_error(frame.body, link.pid))
        if not self._pool.is_given_up:
            link.bury()
        self._link = None
        link.close()

    # --- records -----------------------------------------------------------------------------------

    def _work(self) -> None:
        exchange = self._exchange
        gate = threading.Lock()
        gate.acquire()
        while not self.is_surplus and not self._pool.is_given_up:
            if self._link is None and (link := self._launch_again()) is not None:
                self._link = link
            batch = self._collect() if self._link is not None else None
            if batch is None:
                exchange.settle()
                batch = self._collect() if self._link is not None else None
            if batch is not None:
                self._run(batch)
            elif exchange.closed:
                return
            else:
                exchange.sleep(gate)

    def _collect(self) -> Batch | None:
        """Take lanes, no more than this worker's share of what is ready; None when nothing is."""
        dispatcher, settings = self._exchange.dispatcher, self._pool.settings
        lanes_max = min(self._size.records, len(dispatcher.ready) // self._pool.size + 1)
        batch = Batch(
            on_failure=self._pool.on_failure,
            hand_in=self._exchange.returned.append,
            history=self._pool.history,
            posting=self._pool.posting,
        )
        per_lane = 1 if self._pool.one_record_turns else self._size.records // lanes_max
        for _ in range(lanes_max):
            lane = dispatcher.begin()
            if lane is None:
                break
            self._take(batch, lane, per_lane)
            if batch.size_bytes >= settings.batch_bytes_max:
                break
        self._exchange.wake_one()
        return batch if batch.records else None

    def _take(self, batch: Batch, lane: Lane, records_max: int) -> None:
        lent = lane.lend(records_max)
        if lent and isinstance(lane.key, KeyFailure):
            batch.refuse(lane, lane.key.error)
            return
        room = self._pool.settings.batch_bytes_max - batch.size_bytes
        size_bytes = 0
        for number, message in enumerate(lent):
            size = size_of(message)
            if number and size_bytes + size > room:
                lane.running = number
                del lent[number:]
                break
            size_bytes += size
        if lent:
            batch.add(lane, lent, size_bytes)
        else:
            self._exchange.returned.append(lane)

    def _run(self, batch: Batch) -> None:
        """Have a batch run, and the child replaced if it dies of it."""
        link = self._link
        assert link is not None
        self._is_busy = True
        try:
            BatchRun(self._pool, link, batch, self._size).run()
        finally:
            self._is_busy = False
        if link.reader.ended or link.is_dead:
            self._link = None
            link.close()
        self._exchange.settle()
        self._exchange.wake_one()
