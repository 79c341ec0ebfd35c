"""Row 35: handlers of one kind of worker, which judge each record as it starts, for `tests.kit.member`.

A record's value is its own offset and that of the record before it of its key, which must have been finished
by then, by whichever process. Some records fail once, some are slow, some are deferred. Worker processes
share what runs.
"""

from __future__ import annotations

import asyncio
import functools
import mmap
import os
import struct
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ehkafka
from ehkafka.lanes import width
from tests.kit.inside import inside
from tests.kit.marks import Marks
from tests.kit.member import options, own

if TYPE_CHECKING:
    from collections.abc import Iterable

# A record's own offset, and the one of its key before it; -1: none.
VALUE = struct.Struct("<qq")
KEYS = 5_000
# What records take, for so many offsets each: over the bounds between quick, computing and waiting handlers.
PHASE_RECORDS = 1_500
COSTS_S = {
    "quick": (0, 0, 0, 0, 0, 0, 0, 0, 1e-4, 1e-3),
    "slow": (1e-3,),
    "tasks": (0, 0, 0, 1e-4, 1e-3),
    "batches": (0, 0, 1e-5, 2e-3),
    "processes": (0, 1e-4, 1e-3),
}
# Below it is computed, else slept.
SLEEP_S = 1e-3
SLOW_S = 0.03
DEFERRED_S = 0.01
# One of so many fails, one is slow, and one deferred. After a failure all keys are read for a while.
EVERY, EVERY_QUICK = 997, 39_989


class Judge:
    """Looks at each record as it starts, and notes it as it ends. Any thread."""

    def __init__(self) -> None:
        marks, partitions, records = own("marks"), int(own("partitions")), int(own("records"))
        self._costs_s = COSTS_S[own("kind")]
        self._every = EVERY_QUICK if own("kind") == "quick" else EVERY
        self._marks = Marks(Path(marks), partitions, records)
        self._unread = Marks(Path(f"{marks}.unread"), partitions, records)
        # Written at once: it outlives a kill.
        self._problems = os.open(f"{marks}.problems", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        # Which keys have a call now, in all processes of this member.
        with Path(f"{options().history}.running").open("a+b") as file:
            file.truncate(partitions * KEYS)
            self._running = mmap.mmap(file.fileno(), partitions * KEYS)
        # What this process has finished, by partition, since that was assigned; nothing in a worker process.
        self._mine: dict[int, set[int]] = {}
        # The engine's, which knows whether keys are read; None in a worker process.
        self.router: Any = None

    def assigned(self, partition: ehkafka.TopicPartition) -> None:
        """Begin an epoch."""
        self._mine[partition.partition] = set()

    def enter(self, records: Iterable[ehkafka.Record]) -> list[int]:
        """Note that a call for these begins; return what `leave` is to be given."""
        places = {record.partition() * KEYS + int(record.key()[1:]) for record in records}
        for place in places:
            if self._running[place]:
                self.problem(f"two calls at once of key {place % KEYS} in {place // KEYS}")
            self._running[place] = 1
        return [*places]

    def leave(self, places: list[int]) -> None:
        """Note that a call ends."""
        for place in places:
            self._running[place] = 0

    def started(self, record: ehkafka.Record) -> set[int]:
        """Judge a record's start; return where its end is to be noted."""
        partition, offset = record.partition(), record.offset()
        own, before = VALUE.unpack(record.value())
        mine = self._mine.get(partition, set())
        if own != offset:
            self.problem(f"{partition}@{offset} has the value of {own}")
        if before >= 0 and not self._marks.has(partition, before):
            self.problem(f"{partition}@{offset} starts, and {before} of its key has not ended")
        if offset in mine:
            self.problem(f"{partition}@{offset} starts again, and has ended in its epoch")
        if self.router is not None and self.router.unread.inbox is not None:
            self._unread.add(partition, offset)
        return mine

    def ended(self, record: ehkafka.Record, mine: set[int]) -> None:
        """Note that a record has finished."""
        mine.add(record.offset())
        self._marks.add(record.partition(), record.offset())

    def problem(self, what: str) -> None:
        """Note what must not be."""
        os.write(self._problems, f"{os.getpid()}: {what}\n".encode())

    def cost_s(self, record: ehkafka.Record) -> float:
        """Return how long a record takes."""
        if self.is_chosen(record, 7):
            return SLOW_S
        return self._costs_s[record.offset() // PHASE_RECORDS % len(self._costs_s)]

    def is_chosen(self, record: ehkafka.Record, number: int) -> bool:
        """Tell whether a record is one of a few: others for each number."""
        return record.offset() % self._every == number


@functools.cache
def judge() -> Judge:
    """Return this process's."""
    return Judge()


def compute(cost_s: float) -> None:
    """Use the CPU for so long."""
    end_s = time.perf_counter() + cost_s
    while time.perf_counter() < end_s:
        pass


def must_fail(record: ehkafka.Record) -> bool:
    """Tell whether an attempt fails."""
    return record.attempt == 1 and judge().is_chosen(record, 3)


def end(record: ehkafka.Record, mine: set[int], *, may_defer: bool = True) -> None:
    """Fail, end it later or end it now."""
    if must_fail(record):
        raise ValueError("not yet")
    if not (may_defer and judge().is_chosen(record, 11)):
        judge().ended(record, mine)
        return
    token = record.defer()

    def answer() -> None:
        judge().ended(record, mine)
        token.finish()

    threading.Timer(DEFERRED_S, answer).start()


def handle(record: ehkafka.Record, *, may_defer: bool = True) -> None:
    """Handle on a thread."""
    places = judge().enter([record])
    try:
        mine, cost_s = judge().started(record), judge().cost_s(record)
        (time.sleep if cost_s >= SLEEP_S else compute)(cost_s)
        end(record, mine, may_defer=may_defer)
    finally:
        judge().leave(places)


def handle_alone(record: ehkafka.Record) -> None:
    """Handle in a worker process."""
    handle(record, may_defer=False)


async def handle_async(record: ehkafka.Record) -> None:
    """Handle on an event loop."""
    places = judge().enter([record])
    try:
        mine, cost_s = judge().started(record), judge().cost_s(record)
        if cost_s >= SLEEP_S:
            await asyncio.sleep(cost_s)
        else:
            compute(cost_s)
        end(record, mine)
    finally:
        judge().leave(places)


def handle_batch(batch: ehkafka.Batch) -> None:
    """Handle several: some calls fail as a whole, before any record has ended, and some records alone."""
    places = judge().enter(batch)
    try:
        if any(must_fail(record) and record.offset() % 2 for record in batch):
            raise ValueError("one of these fails")
        cost_s = max(map(judge().cost_s, batch))
        (time.sleep if cost_s >= SLEEP_S else compute)(cost_s)
        failed = set()
        for record in batch:
            # Records of a key may be in one batch: each is judged when the one before it has ended.
            key = record.partition(), record.key()
            if must_fail(record):
                batch.fail(record, ValueError("not yet"))
                failed.add(key)
            elif key not in failed:
                judge().ended(record, judge().started(record))
    finally:
        judge().leave(places)


def add_handlers(app: Any) -> None:
    """Register the handler for a kind of worker."""
    # What is computed takes longer; what is not takes less, where others use the CPU, too.
    width.QUICK_S = 7e-5
    kind, topic = own("kind"), options().topic
    retry = ehkafka.Retry(attempts=3, first_s=0.05)
    if kind == "tasks":
        app.handler(topic, workers=300, retry=retry)(handle_async)
    elif kind == "batches":
        app.batch_handler(topic, batch_records_max=100, wait_s_max=0.05, workers=4, retry=retry)(handle_batch)
    elif kind == "processes":
        app.handler(topic, workers=ehkafka.Processes(2), retry=retry)(handle_alone)
    else:
        app.handler(topic, workers=8 if kind == "quick" else 100, retry=retry)(handle)
    app.on_assigned(judge().assigned)

    def started() -> None:
        judge().router = inside(app).inboxes.router

    app.on_start(started)
