"""Which worker runs quick handlers, and that a blocked one never keeps the others from working."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from typing import Any

import pytest

from ehkafka.lanes.dispatcher import Dispatcher
from ehkafka.lanes.order import KeyReader
from ehkafka.records import TopicPartition
from ehkafka.workers.exchange import Exchange
from ehkafka.workers.protocol import PoolOptions
from ehkafka.workers.threads import ThreadWorkers
from tests.kit.simulated.message import WatchedMessage
from tests.kit.waiting import wait_until

LIMIT_S = 10.0


class Bench:
    """A dispatcher, an exchange and threads; the test plays the poll thread."""

    def __init__(self, workers: int) -> None:
        self.dispatcher = Dispatcher()
        self.exchange = Exchange(self.dispatcher, time.monotonic)
        self.assignment = self.dispatcher.assign(TopicPartition("t", 0), 1)
        self.gate = threading.Event()
        self.done: deque[tuple[int, str]] = deque()
        self.workers = ThreadWorkers(
            self.exchange,
            PoolOptions(
                name="quick",
                size=workers,
                on_failure=lambda lane, error: pytest.fail(f"{lane.key!r}: {error}"),
                on_death=lambda error: pytest.fail(f"a worker died: {error!r}"),
            ),
            invoke=self._invoke,
        )
        self.workers.start()
        self._offset = 0

    def _invoke(self, lane: Any) -> None:
        if lane.key.startswith(b"slow"):
            self.gate.wait(LIMIT_S)
        self.done.append((lane.head.offset(), threading.current_thread().name))

    def receive(self, *keys: bytes) -> None:
        """Hand records of these keys over in one batch."""
        batch = [WatchedMessage("t", 0, self._offset + n, key) for n, key in enumerate(keys)]
        self._offset += len(keys)
        with self.exchange.locked() as dispatcher:
            dispatcher.receive(self.assignment, batch, KeyReader().keys(batch), 0.0)

    def watch_until(self, done: int) -> None:
        """Look as often as the poll thread does until so many records are done."""

        def check() -> None:
            self.exchange.watch()
            time.sleep(1e-3)

        wait_until(lambda: len(self.done) >= done, lambda: f"{done} are done", meanwhile=check)

    def close(self) -> None:
        """Let everything end."""
        self.gate.set()
        assert self.workers.stop(LIMIT_S) == []


@pytest.fixture
def bench() -> Any:
    """A bench of four workers that believe handlers to be quick."""
    made = Bench(4)
    made.exchange.note_cost(1e-6)
    yield made
    made.close()


def test_a_quick_worker_that_blocks_is_replaced(bench: Bench) -> None:
    """Quick handlers, one record blocks its worker: the others finish all the rest."""
    bench.receive(b"slow", *(b"k%d" % n for n in range(500)))
    bench.watch_until(500)
    assert 0 not in {offset for offset, _ in bench.done}
    bench.gate.set()
    bench.watch_until(501)


def test_all_but_one_blocked_still_leaves_one_to_work(bench: Bench) -> None:
    """Three of four workers blocked, one after another: the fourth finishes what is left."""
    for number in range(3):
        bench.receive(b"slow%d" % number, *(b"k%d-%d" % (number, n) for n in range(50)))
        bench.watch_until(50 * (number + 1))
    bench.gate.set()
    bench.watch_until(153)


def test_quick_handlers_are_run_by_few_workers() -> None:
    """While nothing blocks, few of many workers do all: the others would only fight for the GIL."""
    bench = Bench(32)
    bench.exchange.note_cost(1e-6)
    for number in range(50):
        bench.receive(*(b"k%d-%d" % (number, n) for n in range(100)))
        # Nobody watches: one that is off the CPU for a moment on a busy machine would count as held up.
        done = 100 * (number + 1)
        wait_until(lambda done=done: len(bench.done) >= done, lambda: f"{done} are done")  # noqa: B023
    by_worker = Counter(name for _, name in bench.done)
    # One is enough; a call that the machine holds up makes handlers look slow, and then others join in. Where
    # all may take work, eight or nine do, and three of them have half of it.
    assert sum(records for _, records in by_worker.most_common(3)) > len(bench.done) * 3 // 4
    bench.close()


def test_single_records_are_never_left_lying(bench: Bench) -> None:
    """Lost wake-ups: a record that finds all workers asleep is handled, 3000 times in a row."""
    for number in range(3000):
        bench.receive(b"k%d" % number)
        bench.exchange.watch()
        if number % 3 == 0:
            bench.watch_until(number + 1)
    bench.watch_until(3000)
    assert bench.dispatcher.backlog_records in range(65)
