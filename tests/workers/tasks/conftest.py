"""Asyncio workers on the inboxes of one handler, and a test in place of the poll thread."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.lanes.decision import HoldHead
from ehkafka.lanes.inbox import MESSAGE
from ehkafka.lanes.inboxes import Inboxes
from ehkafka.records import TopicPartition
from ehkafka.workers.hub import Hub
from ehkafka.workers.protocol import PoolOptions
from ehkafka.workers.tasks.shared import AppLoop
from ehkafka.workers.tasks.workers import AsyncioWorkers
from tests.kit.simulated.message import SimulatedMessage
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Hashable, Iterator, Sequence

    from ehkafka.lanes.decision import Attempt
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.inbox import Entry


PARTITION = TopicPartition("t", 0)
LIMIT_S = 30.0


async def nothing(_entry: Entry) -> None:
    """Return without ever suspending."""


class Pool:
    """Asyncio workers, and a test in place of the poll thread."""

    def __init__(
        self,
        size: int,
        work: Callable[[Entry], Coroutine[None, None, object]] = nothing,
        **options: Any,
    ) -> None:
        self.hub = Hub(Inboxes(size), time.monotonic, options.pop("pace", None))
        self.inboxes = self.hub.inboxes
        self.work = work
        # Offsets of the calls that began and that returned; what `Failures` was asked; what the loop died of.
        self.started: list[int] = []
        self.ended: list[int] = []
        self.failed: list[BaseException] = []
        self.deaths: list[BaseException] = []
        self.running_max = 0
        self.running_now = 0
        # Decides what becomes of a failed record.
        self.decide: Callable[[Attempt, BaseException], Any] = lambda _attempt, _error: HoldHead("it failed")
        self._epochs = 0
        # Keys whose calls run now, of all epochs.
        self._keys: set[Hashable] = set()
        self.workers = AsyncioWorkers(
            self.hub,
            PoolOptions(name="x", size=size, on_failure=self._decide, on_death=self.deaths.append, **options),
            AppLoop(owner="x"),
            invoke=self._invoke,
        )
        self.workers.start()

    async def _invoke(self, entry: Entry, _number: int) -> object:
        message, key, _, epoch = entry
        name = (epoch.partition, key)
        assert name not in self._keys, f"two calls of {name} at once"
        self._keys.add(name)
        self.started.append(message.offset())
        self.running_now += 1
        self.running_max = max(self.running_max, self.running_now)
        try:
            return await self.work(entry)
        finally:
            self.running_now -= 1
            self.ended.append(message.offset())
            self._keys.remove(name)

    def _decide(self, attempt: Attempt, error: BaseException) -> Any:
        self.failed.append(error)
        return self.decide(attempt, error)

    def assign(self, partition: TopicPartition = PARTITION) -> Epoch:
        """Begin an epoch."""
        self._epochs += 1
        with self.hub.locked() as inboxes:
            return inboxes.assign(partition, self._epochs)

    def receive(self, epoch: Epoch, first: int, keys: Sequence[bytes]) -> None:
        """Hand over a batch, as the poll thread does."""
        topic, partition = epoch.partition
        batch = [SimulatedMessage(topic, partition, first + n, key) for n, key in enumerate(keys)]
        self.hub.receive([(epoch, batch, keys, (), [1] * len(batch))])

    def end(self, epoch: Epoch) -> None:
        """End an epoch as a loss does."""
        with self.hub.locked() as inboxes:
            inboxes.ending.end([epoch])
        self.workers.cancel_ended()

    def finished(self, epoch: Epoch) -> int:
        """Return how many records of an epoch have finished."""
        with self.hub.locked():
            return epoch.tally.finished_records

    def call_soon(self, function: Callable[[], object]) -> None:
        """Call a function on the loop."""
        self.workers._loop.call(function)

    def wait(self, true: Callable[[], Any], timeout_s: float = LIMIT_S, *, watch: bool = True) -> None:
        """Wait, with a watch as by the poll thread."""
        wait_until(lambda: (watch and self.hub.watch() and False) or true(), timeout_s=timeout_s)


def offset_of(entry: Entry) -> int:
    """Return a record's offset."""
    return entry[MESSAGE].offset()


@pytest.fixture
def pool() -> Iterator[Callable[..., Pool]]:
    """Make pools that are closed when the test ends."""
    pools: list[Pool] = []

    def make(*arguments: Any, **options: Any) -> Pool:
        pools.append(Pool(*arguments, **options))
        return pools[-1]

    yield make
    for one in pools:
        for epoch in list(one.inboxes.router.epochs.values()):
            one.end(epoch)
        assert one.workers.stop(LIMIT_S) == []
