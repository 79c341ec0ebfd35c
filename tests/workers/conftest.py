"""Workers on one hub without a broker, and methods rewritten for one test."""

from __future__ import annotations

import sys
import threading
import time
from collections import defaultdict, deque
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.lanes.inbox import EPOCH, KEY, MESSAGE
from ehkafka.lanes.inboxes import Inboxes
from ehkafka.lanes.order import KeyReader
from ehkafka.records import TopicPartition
from ehkafka.workers.hub import Hub
from ehkafka.workers.protocol import PoolOptions
from ehkafka.workers.threads import ThreadWorkers
from tests.kit.mutant import take_out
from tests.kit.simulated.message import SimulatedMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ehkafka.lanes.decision import Attempt
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.inbox import Entry
    from ehkafka.workers.rate import Pace

LIMIT_S = 30.0


class Judge:
    """A handler that notices overlaps over all epochs, and swaps and repeats within one."""

    def __init__(self) -> None:
        self.wrong: deque[str] = deque()
        self.work: Callable[[Entry, int], None] | None = None
        # By epoch; each set has only atomic writes.
        self.done: dict[Epoch, set[int]] = defaultdict(set)
        self.handled = 0
        self._running: dict[Any, int] = {}
        self._last: dict[Any, int] = {}
        # By the message's identity, what is called with a message alone.
        self.entries: dict[int, Entry] = {}
        self._count = threading.Lock()

    def __call__(self, entry: Entry, number: int) -> None:
        """Handle a record."""
        epoch, offset = entry[EPOCH], entry[MESSAGE].offset()
        name = (epoch.partition, entry[KEY])
        if name in self._running:
            self.wrong.append(f"{name}@{offset} overlaps {self._running[name]}")
        self._running[name] = offset
        last = self._last.get((epoch, entry[KEY]), -1)
        if last > offset or (last == offset and number == 1) or offset in self.done[epoch]:
            self.wrong.append(f"{name}@{offset}, call {number}, after {last} in epoch {epoch.number}")
        self._last[epoch, entry[KEY]] = offset
        try:
            if self.work is not None:
                self.work(entry, number)
        except BaseException:
            self._running.pop(name, None)
            raise
        self._running.pop(name, None)
        self.done[epoch].add(offset)
        with self._count:
            self.handled += 1

    def plain(self, message: Any) -> None:
        """Handle a record whose key is unread, at its first attempt."""
        self(self.entries[id(message)], 1)

    def holds(self, entry: Entry) -> None:
        """Note that a record is deferred: its key still counts as running."""
        self._running[entry[EPOCH].partition, entry[KEY]] = entry[MESSAGE].offset()

    def lets_go(self, attempt: Attempt, *, finished: bool) -> None:
        """Note that a deferred record was answered."""
        self._running.pop((attempt.epoch.partition, attempt.key), None)
        if finished:
            self.done[attempt.epoch].add(attempt.message.offset())


class Pool:
    """Thread workers on one hub, with a judge as their handler."""

    def __init__(
        self,
        workers: int,
        work: Callable[[Entry, int], None] | None = None,
        *,
        on_failure: Callable[[Attempt, BaseException], Any] | None = None,
        pace: Pace | None = None,
        clock: Callable[[], float] = time.monotonic,
        starts: bool = True,
        kind: type[ThreadWorkers] = ThreadWorkers,
        unread: bool = False,
        **options: Any,
    ) -> None:
        """`unread`: keys stay unread while calls are quick."""
        inboxes = Inboxes(workers, read_keys=KeyReader().keys, cores=1) if unread else Inboxes(workers)
        self.hub = Hub(inboxes, clock, pace)
        self.judge = Judge()
        self.judge.work = work
        self.wrong = self.judge.wrong
        self._on_failure = on_failure
        self._epochs = 0
        self.workers = kind(
            self.hub,
            PoolOptions(
                name="race",
                size=workers,
                on_failure=self._failed,
                on_death=lambda error: self.wrong.append(f"a worker died: {error!r}"),
                **options,
            ),
            invoke=self.judge,
            plain=self.judge.plain if unread else None,
        )
        if starts:
            self.workers.start()

    @property
    def handled(self) -> int:
        """How many calls have returned."""
        return self.judge.handled

    def assign(self, partition: int = 0) -> Epoch:
        """Begin an epoch."""
        self._epochs += 1
        with self.hub.locked() as inboxes:
            return inboxes.assign(TopicPartition("t", partition), self._epochs)

    def receive(self, epoch: Epoch, first: int, keys: Sequence[bytes]) -> None:
        """Hand over a batch of one partition."""
        batch = [SimulatedMessage("t", epoch.partition.partition, first + n, k) for n, k in enumerate(keys)]
        self.judge.entries.update((id(one), (one, one.key(), 1, epoch)) for one in batch)
        known = None if self.hub.inboxes.router.unread.needs_no_keys() else keys
        self.hub.receive([(epoch, batch, known, (), [1] * len(batch))])

    def close(self) -> None:
        """Let the workers leave."""
        left = self.workers.stop(LIMIT_S)
        assert left == []

    def _failed(self, attempt: Attempt, error: BaseException) -> Any:
        if self._on_failure is None:
            self.wrong.append(f"{attempt.key!r}: {error!r}")
            raise error
        return self._on_failure(attempt, error)


@pytest.fixture
def pool() -> Iterator[Callable[..., Pool]]:
    """Make pools that are closed when the test ends."""
    pools: list[Pool] = []

    def make(*arguments: Any, **options: Any) -> Pool:
        pools.append(Pool(*arguments, **options))
        return pools[-1]

    yield make
    for one in pools:
        one.close()


@pytest.fixture
def switch_often() -> Iterator[None]:
    """Switch threads as often as the interpreter can."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before_s)


@pytest.fixture
def mutate(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, str, str, str], None]:
    """Rewrite a line of a method, or of a module's function, for one test; fails if it is no longer there."""
    return partial(take_out, monkeypatch)
