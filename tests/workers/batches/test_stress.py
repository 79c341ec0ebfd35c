"""Batch workers on threads: failures, halves, skips and rebalances at random, and a judge of each call."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.headers.size import sizes_of
from ehkafka.lanes.decision import RetryHead
from ehkafka.lanes.inbox import EPOCH, KEY, MESSAGE
from ehkafka.lanes.inboxes import Inboxes
from ehkafka.records import TopicPartition
from ehkafka.records.batch import Failed, Skipped
from ehkafka.workers.batches.results import Results
from ehkafka.workers.batches.taking import BatchLimits
from ehkafka.workers.batches.workers import BatchWorkers
from ehkafka.workers.hub import Hub
from ehkafka.workers.protocol import PoolOptions
from tests.kit.simulated.message import SimulatedMessage
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ehkafka.lanes.decision import Attempt, Decision
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.inbox import Entry
    from ehkafka.records.batch import Result

RECORDS = 1_500
PARTITIONS = 3
KEYS = 25


class Stress:
    """One run: a handler that judges, and a poll thread that rebalances."""

    def __init__(self, seed: int, workers: int) -> None:
        self.random = random.Random(seed)
        self.lock = threading.Lock()
        self.wrong: list[Any] = []
        # Keys that run; how often each record was handled; which were alone when their handler raised.
        self.running, self.handled, self.blamed = Counter[Any](), Counter[Any](), Counter[Any]()
        self.last: defaultdict[Any, int] = defaultdict(lambda: -1)
        self.hub = Hub(Inboxes(workers), time.monotonic)
        limits = BatchLimits(records_max=40, bytes_max=None, wait_s_max=0.003)
        options = PoolOptions(name="h", size=workers, on_failure=self.decide, on_death=self.wrong.append)
        self.workers = BatchWorkers(self.hub, options, call=self, limits=limits, emit=lambda _event: None)
        keys = self.random.choices(range(KEYS), k=RECORDS)
        self.log = [[b"%d" % key for key in keys] for _ in range(PARTITIONS)]
        self.poison = {(p, self.random.randrange(RECORDS)) for p in range(PARTITIONS) for _ in range(4)}
        self.done: dict[int, set[int]] = {p: set() for p in range(PARTITIONS)}
        self.committed = dict.fromkeys(range(PARTITIONS), 0)
        self.epochs: dict[int, Epoch] = {}
        self.next: dict[int, int] = {}
        self.numbers = 0

    # The handler.

    def __call__(self, entries: Sequence[Entry]) -> Results | None:
        """Be the handler, and note what comes again."""
        try:
            reported = self.handle(entries)
        except Exception:
            with self.lock:
                for entry in reversed(entries):
                    self.last[entry[EPOCH], entry[KEY]] = entry[MESSAGE].offset()
            raise
        results = Results.of(entries, reported)
        again = {id(entry) for entry, _, _ in results.failed}
        with self.lock:
            for place, entry in enumerate(entries):
                if place not in results.again:
                    self.handled[place_of(entry)] += 1
                elif id(entry) in again:
                    self.last[entry[EPOCH], entry[KEY]] = entry[MESSAGE].offset()
        return results

    def handle(self, entries: Sequence[Entry]) -> Mapping[int, Result]:
        """Judge the batch; raise for a poisoned record, or report results at random."""
        mine = {(entry[EPOCH].partition.partition, entry[KEY]) for entry in entries}
        with self.lock:
            self.wrong += [("two batches at once", name) for name in mine if self.running[name]]
            self.running.update(mine)
            for entry in entries:
                self.judge(entry)
        try:
            if self.chance() < 0.1:
                time.sleep(self.chance() * 0.01)
            poisoned = [place for place, entry in enumerate(entries) if place_of(entry) in self.poison]
            if poisoned:
                raise ConnectionError("no luck")
            if self.chance() < 0.01:
                raise LookupError("any of them")
            found: dict[int, Result] = {}
            for place in range(len(entries)):
                if self.chance() < 0.005:
                    found[place] = Failed(ValueError("again"))
                elif self.chance() < 0.005:
                    found[place] = Skipped("not wanted")
            return found
        finally:
            with self.lock:
                self.running.subtract(mine)

    def judge(self, entry: Entry) -> None:
        """Compare with the last record of its key in its epoch."""
        name, offset = (entry[EPOCH], entry[KEY]), entry[MESSAGE].offset()
        if offset < self.last[name]:
            self.wrong.append(("swapped", entry[KEY], offset, self.last[name]))
        self.last[name] = offset

    def chance(self) -> float:
        """Draw a number; any thread."""
        return random.random()

    def decide(self, attempt: Attempt, error: BaseException) -> Decision:
        """Cure what was poisoned at its second attempt, and note who spends attempts."""
        place = place_of(attempt.entry)
        with self.lock:
            if isinstance(error, ConnectionError):
                self.blamed[place] += 1
                if self.blamed[place] > 1:
                    self.poison.discard(place)
        return RetryHead(self.chance() * 0.01, "again")

    # The poll thread.

    def run(self) -> None:
        """Let all of it be handled, whatever happens."""
        self.workers.start()
        wait_until(self.is_over, "all is committed", 60.0, meanwhile=self.poll)
        assert self.workers.stop(10.0) == []

    def is_over(self) -> bool:
        """Tell whether all is committed, or something is wrong."""
        return bool(self.wrong) or self.committed == dict.fromkeys(range(PARTITIONS), RECORDS)

    def poll(self) -> None:
        """Receive, look, commit; now and then begin or end epochs."""
        x = self.random.random()
        if x < 0.03 and self.epochs:
            self.end([p for p in self.epochs if self.random.random() < 0.5], drains=x < 0.02)
        for p in range(PARTITIONS):
            if p not in self.epochs and self.random.random() < 0.3:
                self.begin(p)
        self.hub.receive([part for p in self.epochs for part in self.part(p)])
        self.hub.watch()
        self.commit()
        time.sleep(0.001)

    def begin(self, p: int) -> None:
        """Assign a partition."""
        self.numbers += 1
        with self.hub.locked() as inboxes:
            self.epochs[p] = inboxes.assign(TopicPartition("t", p), self.numbers)
        self.next[p] = self.committed[p]

    def end(self, partitions: list[int], *, drains: bool) -> None:
        """Revoke or lose partitions."""
        epochs = [self.epochs[p] for p in partitions]
        ends_s = time.monotonic() + 0.05 * drains
        while epochs and time.monotonic() < ends_s:
            with self.hub.locked() as inboxes:
                inboxes.drain(epochs, lambda _work: True)
                if inboxes.is_drained(epochs):
                    break
            self.hub.watch()
            time.sleep(0.001)
        self.commit()
        with self.hub.locked() as inboxes:
            inboxes.end(epochs)
        for p in partitions:
            del self.epochs[p]

    def part(self, p: int) -> Iterator[Any]:
        """Return what is received of a partition."""
        begin, end = self.next[p], min(RECORDS, self.next[p] + self.random.choice((0, 5, 60)))
        if begin < end and self.hub.tally.backlog_records < 400:
            self.next[p] = end
            messages = [SimulatedMessage("t", p, n, self.log[p][n]) for n in range(begin, end)]
            yield self.epochs[p], messages, [one.key() for one in messages], (), sizes_of(messages)

    def commit(self) -> None:
        """Look how far each partition is."""
        with self.hub.locked():
            marks = {p: epoch.watermark() for p, epoch in self.epochs.items()}
        for p, mark in marks.items():
            if mark is not None:
                self.committed[p] = mark


def place_of(entry: Entry) -> tuple[int, int]:
    """Return where a record is."""
    return entry[MESSAGE].partition(), entry[MESSAGE].offset()


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_random_failures_and_rebalances_keep_every_promise(workers: int) -> None:
    """Order per key, one batch of a key at a time over all epochs, nothing lost, only culprits blamed."""
    switch_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    stress = Stress(workers, workers)
    poisoned = set(stress.poison)
    try:
        stress.run()
    finally:
        sys.setswitchinterval(switch_s)
    assert stress.wrong == []
    assert len(stress.handled) == PARTITIONS * RECORDS
    assert poisoned == set(stress.blamed)
