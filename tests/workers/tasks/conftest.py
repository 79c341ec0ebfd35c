"""Asyncio workers on one dispatcher, and a test in place of the poll thread."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.lanes.decision import HoldHead
from ehkafka.lanes.dispatcher import Dispatcher
from ehkafka.lanes.order import KeyReader
from ehkafka.records import TopicPartition
from ehkafka.workers.exchange import Exchange
from ehkafka.workers.protocol import PoolOptions
from ehkafka.workers.tasks.exchange import LoopExchange
from ehkafka.workers.tasks.workers import AsyncioWorkers
from tests.kit.simulated.message import SimulatedMessage
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from ehkafka.lanes.assignment import Assignment
    from ehkafka.lanes.lane import Lane


PARTITION = TopicPartition("t", 0)
LIMIT_S = 30.0


async def nothing(_lane: Lane) -> None:
    """Return without ever suspending."""


class Pool:
    """Asyncio workers, and a test in place of the poll thread."""

    def __init__(
        self,
        size: int,
        work: Callable[[Lane], Coroutine[None, None, object]] = nothing,
        mixed_in: tuple[type, ...] = (),
        *,
        late: bool,
        **options: Any,
    ) -> None:
        """With `late`, records get their lanes as tasks take them; `mixed_in` goes before the exchange."""
        self.dispatcher = Dispatcher()
        self.is_late = late
        self.exchange: Exchange
        if late:
            kind = type("Mixed", (*mixed_in, LoopExchange), {})
            self.exchange = kind(self.dispatcher, time.monotonic, self.dispatcher.use_late_lanes(KeyReader()))
        else:
            self.exchange = type("Mixed", (*mixed_in, Exchange), {})(self.dispatcher, time.monotonic)
        self.work = work
        # Offsets of the calls that began and that returned; what `Failures` was asked; what the loop died of.
        self.started: list[int] = []
        self.ended: list[int] = []
        self.failed: list[BaseException] = []
        self.deaths: list[BaseException] = []
        self.running_max = 0
        self._running = 0
        self._epochs = 0
        self.workers = AsyncioWorkers(
            self.exchange,
            PoolOptions(name="x", size=size, on_failure=self._decide, on_death=self.deaths.append, **options),
            invoke=self._invoke,
        )
        self.workers.start()

    async def _invoke(self, lane: Lane) -> object:
        assert lane.head is not None
        offset = lane.head.offset()
        self.started.append(offset)
        self._running += 1
        self.running_max = max(self.running_max, self._running)
        try:
            return await self.work(lane)
        finally:
            self._running -= 1
            self.ended.append(offset)

    def _decide(self, _lane: Lane, error: BaseException) -> Any:
        self.failed.append(error)
        return HoldHead("it failed")

    def assign(self) -> Assignment:
        """Begin an epoch."""
        self._epochs += 1
        with self.exchange.locked() as dispatcher:
            return dispatcher.assign(PARTITION, self._epochs)

    def receive(self, assignment: Assignment, first: int, keys: list[bytes]) -> None:
        """Hand over a batch and wake once, as the poll thread does when it looks."""
        batch = [SimulatedMessage("t", 0, first + n, key) for n, key in enumerate(keys)]
        with self.exchange.locked() as dispatcher:
            dispatcher.receive(assignment, batch, keys, 0.0)
        self.exchange.wake_one()

    def end(self, assignment: Assignment) -> None:
        """End an epoch as a loss does."""
        with self.exchange.locked() as dispatcher:
            dispatcher.end(assignment)
        self.workers.cancel_ended()

    def wait(self, true: Callable[[], Any], timeout_s: float = LIMIT_S) -> None:
        """Wait, without ever waking or settling."""
        wait_until(true, timeout_s=timeout_s)


@pytest.fixture(params=["lanes", "late lanes"])
def pool(request: pytest.FixtureRequest) -> Iterator[Callable[..., Pool]]:
    """Make pools that are closed when the test ends; each test runs with lanes made early and late."""
    pools: list[Pool] = []

    def make(*arguments: Any, **options: Any) -> Pool:
        pools.append(Pool(*arguments, late=request.param == "late lanes", **options))
        return pools[-1]

    yield make
    for one in pools:
        for assignment in list(one.dispatcher.assignments.values()):
            one.end(assignment)
        assert one.workers.stop(LIMIT_S) == []
