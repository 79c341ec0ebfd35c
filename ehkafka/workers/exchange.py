"""Where the poll thread and the workers of one handler meet: the lock, handed-in lanes, sleeping workers.

The lock guards the dispatcher's bookkeeping. It is taken per batch or per turn, never per record, and
no worker waits for it: a worker puts its lanes into `returned` and tries the lock; whoever has it settles
them all and looks again after letting go (flat combining). So a lane handed in is settled either by its
worker, or by the holder at that moment, or at the poll thread's next look.

A worker that finds nothing publishes its gate, looks once more, then sleeps on the gate. Handlers of a
few microseconds gain nothing from a second thread under the GIL and lose much to the fight for it, so
who is woken depends on their cost: slow ones let every worker that takes work wake one more; quick ones
are run by one worker, the *quick worker*; the others step back. Held up by a slow record it is
replaced by the poll thread when no record finished between two looks.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ehkafka.lanes.express_mode import ExpressMode
from ehkafka.lanes.running import is_running
from ehkafka.lanes.streams import Streams
from ehkafka.workers.chunk_watch import ChunkWatch
from ehkafka.workers.stream_watch import StreamWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Hashable, Iterator

    from ehkafka.lanes.chunk import Chunk
    from ehkafka.lanes.cuts import Work
    from ehkafka.lanes.decision import Answer, Ticket
    from ehkafka.lanes.dispatcher import Dispatcher
    from ehkafka.lanes.lane import Lane
    from ehkafka.records import Message, TopicPartition
    from ehkafka.workers.call_times import CallTimes
    from ehkafka.workers.protocol import Gate
    from ehkafka.workers.rate import Pace

# Handlers cheaper than this run one after another on one thread faster than on two: with 16 workers awake and
# a handler of a microsecond the fight for the interpreter's lock cost four fifths (70 k/s against 390 k/s).
QUICK_S = 20e-6
# A quick worker that finished nothing for so long while lanes are ready counts as held up. Longer than the
# poll thread itself keeps the GIL for a batch.
PATIENCE_S = 3e-3
# Records over which the mean time of one is taken.
MEAN_RECORDS = 200
# What threads sleep on. Only they leave work to each other: a loop that is woken wakes all of its tasks.
_THREADS_GATE = type(threading.Lock())


class Exchange:
    """Shared state of one handler's poll side and worker side."""

    def __init__(self, dispatcher: Dispatcher, clock: Callable[[], float], pace: Pace | None = None) -> None:
        self.dispatcher = dispatcher
        self._clock = clock
        # The handler's rate limit, which the dispatcher keeps; here it says when looking is of use.
        self._pace = pace
        # Guards the dispatcher, its assignments and all lanes that no worker holds. After `App._lock`, before
        # `Runtime._lock` and the event bus's; never two exchanges' at once. No user's code runs under it:
        # keys of users' types are replaced before it is taken, and put into words after it is let go.
        self._lock = threading.Lock()
        # Lanes, and chunks, whose holders are done with them. Any worker appends; only who has the lock pops.
        self.returned: deque[Lane | Chunk] = deque()
        # Answers to tickets. Any thread appends; only who has the lock pops.
        self._answers: deque[tuple[Ticket, Answer]] = deque()
        # Gates of sleeping workers: locked locks, or what calls an event loop. A worker appends its own; who
        # pops one must release it.
        self._idle_gates: deque[Gate] = deque()
        # The gate of the worker that runs quick handlers. A worker sets its own, or who wakes it does, and
        # clears it before it sleeps; the poll thread clears it when that one is held up. Two at once do no
        # harm for long.
        self._quick_worker: threading.Lock | None = None
        # Whether the dispatcher's chunks run. Poll thread only, as what follows.
        self._mode = ExpressMode()
        self._chunk_watch = ChunkWatch(QUICK_S)
        self._stream_watch = StreamWatch()
        # Where the last look for progress found the finished records, and when. Poll thread only.
        self._progress_seen = (-1, 0.0)
        # Recent cost of a record, in seconds; any worker writes it and a lost update does no harm.
        self.cost_s = 1.0
        # How long a record takes a worker, over the last few hundred; 0 before any. Written like `cost_s`.
        self.mean_s = 0.0
        # Where workers count how long calls take; None while nobody wants to know. Set once, by any thread.
        self.call_times: CallTimes | None = None
        # Set once; workers leave when they see it and find nothing ready.
        self.closed = False

    @contextmanager
    def locked(self) -> Iterator[Dispatcher]:
        """Give the dispatcher with all handed-in lanes settled. For the poll thread; waits for the lock."""
        with self._lock:
            self._settle_returned()
            yield self.dispatcher
        self.settle()
        self._wake_for_settled()

    def settle(self) -> None:
        """Settle what was handed in, unless another thread is at it: that one looks again."""
        has_settled = False
        while True:
            # Looked at again once the lock is free: who found it taken handed in before, and relies on it.
            while (self.returned or self._answers or self._is_short) and self._lock.acquire(blocking=False):
                try:
                    self._settle_returned()
                finally:
                    self._lock.release()
                has_settled = True
            if not self.dispatcher.decisions.outbox:
                break
            self._begin_awaits()  # may have brought answers: once more
        if has_settled:
            self._wake_for_settled()

    def _wake_for_settled(self) -> None:
        """Wake somebody for what settling made ready: whoever fell asleep meanwhile saw nothing ready.

        A worker never stays awake for what is handed in and not settled: the lock's holder may have been
        preempted, and all others would spin until it runs again (100 workers of 160 µs: a fifth of the rate).
        """
        if self.cost_s >= QUICK_S or self._quick_worker is None:
            self.wake_one()

    def take(self, lanes_max: int) -> list[Lane]:  # noqa: ARG002 - where it makes lanes
        """Lend up to so many lanes beside those that stand ready: none."""
        return []

    def complete(self, ticket: Ticket, answer: Answer) -> None:
        """Say what became of an awaited head. Any thread, never under the lock; later answers are ignored."""
        self._answers.append((ticket, answer))
        self.settle()
        self.wake_one()

    def complete_in_begin(self, ticket: Ticket, answer: Answer) -> None:
        """Say it from within the ticket's own `begin`: whoever called that settles it next."""
        # To settle here would begin the next ticket from within this one, and so on: many would recurse.
        self._answers.append((ticket, answer))

    def is_running(self, message: Message, key: Hashable) -> bool | None:
        """Tell whether a record is with its handler; None where that is not known. Waits for the lock."""
        if self.closed:
            return None
        with self.locked() as dispatcher:
            return is_running(dispatcher, message, key)

    def count_finished(self) -> int:
        """Return how many records have finished, those handed in a moment ago included. Waits for the lock.

        Only for a worker whose record has failed for good and is not handed in yet.
        """
        with self.locked() as dispatcher:
            return dispatcher.finished_records

    def _settle_returned(self) -> None:
        returned, answers = self.returned, self._answers
        if returned or self._is_short:
            lanes = [returned.popleft() for _ in range(len(returned))]
            self.dispatcher.settle(lanes, self._clock())  # type: ignore[arg-type]
        for _ in range(len(answers)):
            self.dispatcher.decisions.complete(*answers.popleft(), self._clock())

    def _begin_awaits(self) -> None:
        outbox = self.dispatcher.decisions.outbox
        while outbox:
            try:
                ticket = outbox.popleft()
            except IndexError:  # another thread took the last one in between
                return
            ticket.decision.begin(ticket)

    def note_cost(self, cost_s: float) -> None:
        """Take a turn's mean cost into account: at once when cheaper, slowly when dearer.

        A turn that waited for the GIL looks slow without being so; a true change shows again and again.
        """
        known_s = self.cost_s
        self.cost_s = cost_s if cost_s < known_s else known_s + (cost_s - known_s) * 0.05

    def note_workers(self, size: int) -> None:
        """Hear how many workers there are: each is to find something ready."""
        if (streams := self._streams) is not None:
            streams.workers = size

    @property
    def _streams(self) -> Streams | None:
        express = self.dispatcher.express
        return express if isinstance(express, Streams) else None

    @property
    def _is_short(self) -> bool:
        """Whether streams are to be made, for workers who would find nothing. Without the lock a guess."""
        return (streams := self._streams) is not None and streams.is_short

    def note_work(self, spent_s: float, records: int) -> None:
        """Take what a worker spent on so many records into the mean."""
        if records:
            mean_s = spent_s / records
            share = min(1.0, records / MEAN_RECORDS) if self.mean_s else 1.0
            self.mean_s += (mean_s - self.mean_s) * share
            if (streams := self._streams) is not None:
                streams.note_mean(self.mean_s)

    def needs_s(self, work: Work, workers: int) -> float:
        """Return how long so many workers take for what a drain has to finish, as far as the past tells."""
        # Quick handlers run one after another, whatever the number.
        needed_s = work.needs_s(self.mean_s, 1 if self.mean_s < QUICK_S else workers)
        return needed_s if self._pace is None else max(needed_s, work.records / self._pace.rate_per_s)

    @property
    def idle(self) -> int:
        """How many workers sleep. Any thread."""
        return len(self._idle_gates)

    def has_ready(self) -> bool:
        """Tell whether a worker would find something, the rate limit aside. Needs no lock."""
        return bool(self.dispatcher.ready)

    def wake_one(self) -> None:
        """Wake an idle worker if a lane is ready and may be lent."""
        if self.has_ready() and self._idle_gates and (self._pace is None or self._pace.is_open):
            self._wake_one()

    def wake_all(self) -> None:
        """Wake every idle worker: something other than work has changed for it."""
        while self._wake_one():
            pass

    def next_due_s(self) -> float | None:
        """Return when ready lanes may be lent again; None when nothing waits for the rate limit."""
        if self._pace is None or not self.dispatcher.ready or self._pace.is_open:
            return None
        return self._pace.due_s

    def earliest_due_s(self) -> float | None:
        """Return when the next thing is due here that waits for a time: a retry, or a token. Any thread."""
        with self.locked() as dispatcher:
            dues = (dispatcher.holds.earliest_due_s(), self.next_due_s())
        return min((due for due in dues if due is not None), default=None)

    def has_received(self, partition: TopicPartition, next_offset: int) -> bool:
        """Tell whether all of a partition up to there is in its lanes, or has gone through. Any thread."""
        with self.locked() as dispatcher:
            assignment = dispatcher.assignments.get(partition)
            return assignment is not None and (assignment.received_next or 0) >= next_offset

    def is_at_rest(self, deferred: Container[Lane], *, letters: bool) -> bool:
        """Tell whether no lane runs but deferred ones, and what is ready waits for a time. Any thread.

        With `letters` lanes that wait for one to be safe run as well.
        """
        with self.locked() as dispatcher:
            idle = deferred if letters else dispatcher.decisions.awaited
            for assignment in dispatcher.assignments.values():
                lanes = assignment.lanes.values()
                if assignment.streams or any(chunk.is_out for chunk in assignment.chunks):
                    return False
                if any(lane.running and lane not in idle for lane in lanes):
                    return False
            express = dispatcher.express
            waits = self.has_ready() or (express is not None and express.waits)
            return not waits or self._waits_for_time()

    def _waits_for_time(self) -> bool:
        """Tell whether what is ready must not start yet."""
        return self._pace is not None and not self._pace.is_open

    def note_chunk(self, spent_s: float, records: int) -> None:
        """Take the cost of a chunk, or of a part of it, into account."""
        mode, express = self._mode, self.dispatcher.express
        assert express is not None
        mode.note_chunk(spent_s, records, self._clock())
        express.on = mode.on

    def note_lanes(self, cost_s: float) -> None:
        """Take the mean cost of a turn of lanes into account: if they are quick, chunks are quicker."""
        express = self.dispatcher.express
        if express is not None and not self._mode.on:
            self._mode.note_lanes(cost_s, self._clock())
            express.on = self._mode.on

    def settle_chunk(self) -> None:
        """Settle a chunk that was handed in, and what waits beside it.

        The one call in which a worker waits for the lock: only one worker has a chunk, and without it there
        may be nothing to do. Looking again and again would keep the lock's holder from its work.
        """
        with self.locked():
            pass

    def end_early(self, chunk: Chunk) -> Lane | None:
        """End a chunk after the record that runs; its worker then holds that record's lane."""
        with self.locked() as dispatcher:
            return dispatcher.end_early(chunk)

    def _watch_chunk(self, chunk: Chunk) -> None:
        """End a chunk early whose records take long: the others must not wait for them."""
        late = self._chunk_watch.late(chunk, self._clock())
        if late is not None:
            self.note_chunk(*late)
            self.end_early(chunk)
            self._quick_worker = None

    def watch(self) -> bool:
        """See to it that ready lanes are worked on. Poll thread only, often.

        True while it must look again at once; False also where lanes wait for workers that are all busy.
        """
        self.settle()
        express = self.dispatcher.express
        chunk = None if express is None else express.out
        if chunk is not None and chunk.running:
            self._watch_chunk(chunk)
        is_watched = chunk is not None
        if (streams := self._streams) is not None and streams.live:
            seen = (streams, self.mean_s, self._clock(), self.idle)
            is_watched |= self._stream_watch.end_late(*seen, self.end_early)
        if not self.has_ready() or not (self._pace is None or self._pace.is_open):
            return is_watched
        if self.cost_s >= QUICK_S or self._quick_worker is None:
            self.wake_one()
            return is_watched or bool(self._idle_gates)
        if not self._progressed():
            self._quick_worker = None  # held up: whoever wakes takes over
            self.wake_one()
        return True

    def _progressed(self) -> bool:
        finished, seen_s = self._progress_seen
        now_s = self._clock()
        if now_s - seen_s < PATIENCE_S:
            return True
        dispatcher = self.dispatcher
        chunk = None if dispatcher.express is None else dispatcher.express.out
        done = dispatcher.finished_records + (0 if chunk is None else chunk.started())
        self._progress_seen = (done, now_s)
        return done != finished

    def steps_back(self, gate: threading.Lock) -> bool:
        """Tell a worker, by its gate, to leave the work to the quick worker; without one it becomes it."""
        if self.cost_s >= QUICK_S:
            if self._quick_worker is gate:
                self._quick_worker = None  # what it takes now may be slow
            return False
        if self._quick_worker is None:
            self._quick_worker = gate
        return self._quick_worker is not gate

    def sleep(self, gate: threading.Lock) -> None:
        """Sleep until woken, unless work came meanwhile. `gate` is the worker's own, locked."""
        if self._quick_worker is gate:
            self._quick_worker = None
        if self.publish(gate):
            gate.acquire()

    def publish(self, gate: Gate) -> bool:
        """Let whoever makes work release a gate, once; False if there is work already: then look again.

        What a worker does before it sleeps; one that must never block does only this.
        """
        self._idle_gates.append(gate)
        # Published first, looked after: work that came before is seen here, work that comes later wakes.
        # A quick worker gives that up before it looks, so of two that go to sleep the later one sees both.
        left_to_quick_worker = self.cost_s < QUICK_S and self._quick_worker is not None
        # What the rate limit keeps ready is no work yet: the poll thread wakes somebody when it is.
        ready = self.has_ready() and (self._pace is None or self._pace.is_open)
        if self.closed or (ready and not left_to_quick_worker):
            try:
                self._idle_gates.remove(gate)
            except ValueError:
                return True  # a waker took the gate already: its token must be taken
            return False
        return True

    def ready_lanes(self) -> int:
        """Return how many lanes `begin` would lend now, as far as is known without the lock."""
        return 0 if self._waits_for_time() else len(self.dispatcher.ready)

    def lanes_at_hand(self, enough: int) -> int:  # noqa: ARG002 - where they must be counted
        """Return how many lanes stand ready, or can be made at once. Without the lock a guess."""
        return len(self.dispatcher.ready)

    def ready_records(self, enough: int) -> int:
        """Return how many records stand in ready lanes, or wait for streams, counted up to `enough`.

        Without the lock a guess.
        """
        express = self.dispatcher.express
        records = 0 if express is None or not express.records_max else express.waiting_records(enough)
        # A copy, made in one step: workers take lanes meanwhile.
        for lane in self.dispatcher.ready.copy():
            records += len(lane)
            if records >= enough:
                break
        return records

    @property
    def has_chunks_to_spread(self) -> bool:
        """Whether records wait that become lanes once the ready ones are few. Without the lock a guess."""
        express = self.dispatcher.express
        return express is not None and not express.on and not express.records_max and express.waits

    @property
    def has_chunks_waiting(self) -> bool:
        """Whether records wait that go to workers once the ready ones are few. Without the lock a guess."""
        express = self.dispatcher.express
        return express is not None and not express.on and express.waits

    @property
    def takes_all(self) -> bool:
        """Whether it is to have as many records as there is room for: chunks are run faster than counted."""
        express = self.dispatcher.express
        return express is not None and express.on

    @property
    def waits_for_more(self) -> bool:
        """Whether somebody waits for more records than are ready, however many these are."""
        return False

    def hurry(self) -> None:
        """Hear that nothing more will be received: who collects batches must not wait for more."""

    def note_watch(self, *, is_close: bool) -> None:
        """Hear whether the poll thread looks each millisecond where it is asked to, or is held up."""

    def close(self) -> None:
        """Let every worker leave once nothing is ready."""
        self.closed = True
        self.wake_all()

    def retire(self, gate: threading.Lock) -> None:
        """Let a worker leave for good: it may be the quick worker, or woken for what is ready now."""
        if self._quick_worker is gate:
            self._quick_worker = None
        self.wake_one()

    def _wake_one(self) -> bool:
        try:
            gate = self._idle_gates.pop()
        except IndexError:
            return False
        # At once: until it runs, others would be woken for the same, and each look of theirs costs the two
        # that work a tenth.
        if self.cost_s < QUICK_S and self._quick_worker is None and isinstance(gate, _THREADS_GATE):
            self._quick_worker = gate
        gate.release()
        return True
