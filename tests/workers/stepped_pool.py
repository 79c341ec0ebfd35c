"""One history of a pool of threads, stepped line by line: what the poll thread may do, and what must hold."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from ehkafka.lanes import inbox as inbox_module
from ehkafka.lanes import routing as routing_module
from ehkafka.lanes import unread as unread_module
from ehkafka.lanes.decision import AwaitHead, RetryHead, SkipHead
from ehkafka.records import Outcome
from ehkafka.workers import hub as hub_module
from ehkafka.workers import thread_pool as thread_pool_module
from ehkafka.workers import threads as threads_module
from ehkafka.workers.call_times import CallTimes
from ehkafka.workers.rate import Pace
from ehkafka.workers.threads import ThreadWorkers
from tests.kit.stepped_threads import Stepper
from tests.workers.conftest import Pool

if TYPE_CHECKING:
    from ehkafka.lanes.decision import Attempt, Decision, Ticket
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.inbox import Entry, Inbox

FILES = [
    module.__file__
    for module in (
        inbox_module,
        routing_module,
        unread_module,
        hub_module,
        thread_pool_module,
        threads_module,
    )
]
# Where a moment decides: a thread falls asleep, leaves, or finds the lock taken.
PAUSING = ("_consume", "_rest", "sleep_until", "wait_until_taken", "settle")
STEPS_MAX = 200_000
# Looks in a row after which everything must have ended.
CHECKS_MAX = 400
PARTITIONS = 2


class _Workers(ThreadWorkers):
    """Threads that are stepped once they are set up."""

    stepper: Stepper

    def _consume(self, inbox: Inbox) -> None:
        inbox.gate = self.stepper.lock(locked=True)
        name = threading.current_thread().name
        self.stepper.adopt(name, lambda: super(_Workers, self)._consume(inbox))


class History:
    """Draws what happens from a seed; `run` returns what was wrong, or nothing."""

    def __init__(self, seed: int, *, paced: bool = False, timed: bool = False, unread: bool = False) -> None:
        self.stepper = Stepper(seed, FILES, PAUSING)  # type: ignore[arg-type]
        self.random = self.stepper.random
        self.now_s = 1_000.0
        self.keys = self.random.choice((1, 2, 5, 20))
        self.failing = self.random.choice((0.0, 0.1, 0.4))
        self.log: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        self.epochs: dict[int, Epoch] = {}
        self.committed = [0] * PARTITIONS
        self.tickets: list[Ticket] = []
        workers = self.random.choice((1, 2, 3))
        kind = type("Stepped", (_Workers,), {"stepper": self.stepper})
        self.pool = Pool(
            workers,
            self._work,
            on_failure=self._decide,
            pace=Pace(200.0, lambda: self.now_s) if paced else None,
            clock=lambda: self.now_s,
            starts=False,
            kind=kind,
            unread=unread,
        )
        self.hub = self.pool.hub
        if timed:
            self.hub.call_times = CallTimes()
        self.hub._lock = self.stepper.lock()  # type: ignore[assignment]
        self.pool.workers.start()
        self.stepper.wait_for(workers)
        self.threads = workers + 1  # the poll thread is one of them

    def run(self) -> str:
        """Play it."""
        self.stepper.start("poll", self._poll)
        try:
            left = self.stepper.run(STEPS_MAX)
        except Exception as error:  # an assertion of the poll thread's, or of the engine itself
            return f"{type(error).__name__}: {error}"
        return str(self.pool.wrong[0]) if self.pool.wrong else left

    # What the handler and its policy do.

    def _work(self, _entry: Entry, number: int) -> None:
        for _ in range(self.random.choice((0, 0, 1, 5, 30))):
            self.stepper.pause()
        if number == 1 and self.random.random() < self.failing:
            raise ValueError

    def _decide(self, attempt: Attempt, _error: BaseException) -> Decision:
        chosen = self.random.random()
        if chosen < 0.4:
            return RetryHead(self.random.choice((0.0, 0.02)), "again")
        if chosen < 0.6:
            self.pool.judge.done[attempt.epoch].add(attempt.message.offset())
            return SkipHead("skipped")
        self.pool.judge.holds(attempt.entry)
        return AwaitHead("asked", self.tickets.append)

    # What the poll thread does.

    def _poll(self) -> None:
        for _ in range(self.random.randint(5, 40)):
            self._act(self.random.random())
            self._check_rest()
        self._finish()
        self.hub.close()

    def _check_rest(self) -> None:
        """Where every thread sleeps, nothing may wait that no time, answer or token is needed for."""
        for _ in range(self.random.choice((0, 0, 400))):
            if self.stepper.others_rest:
                break
            self.stepper.pause()
        if self.stepper.others_rest:
            assert not self.hub._posted, "what was posted is left lying"
            for inbox in self.hub.inboxes.all_inboxes():
                assert not inbox.frozen, "a frozen consumer sleeps for ever"
                assert self.hub.pace is not None or not inbox.q, "a record lies with a sleeping consumer"

    def _act(self, chosen: float) -> None:
        if chosen < 0.5:
            self._receive()
        elif chosen < 0.65:
            self._check()
        elif chosen < 0.73:
            self._answer()
        elif chosen < 0.8:
            self._check_commit()
        elif chosen < 0.87:
            self._rebalance()
        elif chosen < 0.97 and self.hub.pace is None:
            self._resize(self.random.choice((1, 2, 3)))
        else:
            with self.hub.locked() as inboxes:
                inboxes.router.piles.stop()
            for _ in range(self.random.randint(0, 20)):
                self.stepper.pause()
            with self.hub.locked() as inboxes:
                inboxes.router.piles.resume()

    def _receive(self) -> None:
        partition = self.random.randrange(PARTITIONS)
        if partition not in self.epochs:
            self.epochs[partition] = self.pool.assign(partition)
            self.sent = self.committed[partition]
            backlog = self.log[partition][self.committed[partition] :]
            if backlog:
                self.pool.receive(self.epochs[partition], self.committed[partition], backlog)
        first = len(self.log[partition])
        keys = [b"k%d" % self.random.randrange(self.keys) for _ in range(self.random.choice((1, 1, 3, 8)))]
        self.log[partition] += keys
        self.pool.receive(self.epochs[partition], first, keys)

    def _check(self) -> None:
        self.now_s += self.random.choice((1e-3, 6e-3, 0.03))
        self.hub.watch()
        with self.hub.locked():
            for _ in range(self.random.choice((0, 20))):  # others find the lock taken
                self.stepper.pause()
        for _ in range(self.random.choice((0, 2, 20))):
            self.stepper.pause()

    def _answer(self) -> None:
        if not self.tickets:
            return
        ticket = self.tickets.pop(self.random.randrange(len(self.tickets)))
        finished = self.random.random() < 0.7
        self.pool.judge.lets_go(ticket.attempt, finished=finished)
        self.hub.answer(ticket, Outcome.FINISHED if finished else RetryHead(0.0, "answered"))

    def _check_commit(self) -> None:
        with self.hub.locked():
            at = {partition: epoch.watermark() for partition, epoch in self.epochs.items()}
        for partition, next_offset in at.items():
            done = self.pool.judge.done[self.epochs[partition]]
            begun_at = self.committed[partition]
            early = [offset for offset in range(begun_at, next_offset or 0) if offset not in done]
            assert not early, f"{partition}@{early[0]} is below the commit position and has not ended"

    def _rebalance(self) -> None:
        gone = [partition for partition in self.epochs if self.random.random() < 0.7]
        epochs = [self.epochs[partition] for partition in gone]
        fits: Any = self.random.choice((None, lambda _work: True))
        for _ in range(self.random.choice((0, 1, 5))):
            with self.hub.locked() as inboxes:
                inboxes.ending.drain(epochs, fits)
            self._check()
        self._check_commit()
        with self.hub.locked() as inboxes:
            for partition in gone:
                next_offset = self.epochs.pop(partition).watermark()
                if next_offset is not None:
                    self.committed[partition] = next_offset
            inboxes.ending.end(epochs)

    def _resize(self, size: int) -> None:
        before = set(self.pool.workers._workers)
        self.pool.workers.resize(size)
        self.threads += len(set(self.pool.workers._workers) - before)
        self.stepper.wait_for(self.threads)
        for _ in range(3):
            self._receive()

    def _finish(self) -> None:
        for partition in range(PARTITIONS):
            if self.log[partition] and partition not in self.epochs:
                self.epochs[partition] = self.pool.assign(partition)
                begun_at = self.committed[partition]
                if self.log[partition][begun_at:]:
                    self.pool.receive(self.epochs[partition], begun_at, self.log[partition][begun_at:])
        for _ in range(CHECKS_MAX):
            self._check()
            self._answer()
            if not self.tickets and not self.hub.tally.unfinished_records:
                break
            for _ in range(60):
                self.stepper.pause()
            with self.hub.locked():
                pass
        left = self.hub.tally.unfinished_records
        assert not left, f"{left} records were left lying"
        self._check_commit()
        with self.hub.locked():
            for partition, epoch in self.epochs.items():
                assert epoch.watermark() in (None, len(self.log[partition])), "not all is committed"
