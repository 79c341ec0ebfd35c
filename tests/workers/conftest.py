"""Workers on one dispatcher without a broker, and methods rewritten for one test."""

from __future__ import annotations

import inspect
import sys
import textwrap
import threading
import time
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.lanes.decision import RetryHead
from ehkafka.lanes.dispatcher import Dispatcher
from ehkafka.lanes.lane import Lane
from ehkafka.lanes.order import KeyReader
from ehkafka.records import TopicPartition
from ehkafka.workers.exchange import Exchange
from ehkafka.workers.protocol import PoolOptions
from ehkafka.workers.threads import ThreadWorkers
from tests.kit.simulated.message import SimulatedMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ehkafka.lanes.assignment import Assignment
    from ehkafka.lanes.chunk import Chunk

PARTITION = TopicPartition("t", 0)
LIMIT_S = 30.0


class Pool:
    """Workers on one dispatcher, and a handler that notices overlaps, swaps and repeats."""

    def __init__(
        self,
        workers: int,
        work: Callable[[Lane], None] | None = None,
        *,
        express: bool = False,
        stream_records_max: int = 0,
    ) -> None:
        """With `express`, records go in chunks until somebody turns `dispatcher.express.on` off.

        With `stream_records_max` chunks are streams of so many records.
        """
        self.dispatcher = Dispatcher()
        self.exchange = Exchange(self.dispatcher, time.monotonic)
        if express or stream_records_max:
            streams = self.dispatcher.use_express(KeyReader())
            streams.on, streams.records_max = express, stream_records_max
            streams.note_mean = streams._judge = lambda *_: None  # type: ignore[method-assign]
            self.exchange.note_chunk = self.exchange.note_lanes = lambda *_: None  # type: ignore[method-assign]
        self.work = work
        self.wrong: deque[str] = deque()
        # By assignment; each set has only atomic writes and belongs to one epoch.
        self.started: dict[int, set[int]] = defaultdict(set)
        self.done: dict[int, set[int]] = defaultdict(set)
        self.handled = 0
        # Of them in chunks; and whether a failed record is tried again.
        self.chunk_records = 0
        self.forgives = False
        self._running: dict[tuple[int, Any], int] = {}
        self._last: dict[tuple[int, Any], int] = {}
        self._count = threading.Lock()
        self._epochs = 0
        self.workers = ThreadWorkers(
            self.exchange,
            PoolOptions(
                name="race",
                size=workers,
                on_failure=self._failed,
                on_death=lambda error: self.wrong.append(f"a worker died: {error!r}"),
            ),
            invoke=self._invoke,
            run_chunk=self._run_chunk,
        )
        self.workers.start()

    def assign(self) -> Assignment:
        """Begin an epoch."""
        self._epochs += 1
        with self.exchange.locked() as dispatcher:
            return dispatcher.assign(PARTITION, self._epochs)

    def receive(self, assignment: Assignment, first: int, keys: list[bytes]) -> None:
        """Hand over a batch, without waking anybody."""
        batch = [SimulatedMessage("t", 0, first + n, key) for n, key in enumerate(keys)]
        with self.exchange.locked() as dispatcher:
            dispatcher.receive(assignment, batch, None if dispatcher.takes_unread(assignment) else keys, 0.0)

    def close(self) -> None:
        """Let the workers leave."""
        left = self.workers.stop(LIMIT_S)
        assert left == []

    def _failed(self, lane: Lane, error: BaseException) -> Any:
        if not self.forgives:
            self.wrong.append(f"{lane.key!r}: {error!r}")
            raise error
        assert lane.head is not None
        epoch, offset = lane.assignment.epoch, lane.head.offset()
        # The checks have seen it start: it may come again.
        self._running.pop((epoch, lane.key), None)
        self._last[epoch, lane.key] = offset - 1
        self.started[epoch].discard(offset)
        return RetryHead(0.0, "once")

    def _run_chunk(self, chunk: Chunk) -> bool:
        assert chunk.iterator is not None
        for message in chunk.iterator:
            # A lane that nobody knows: it tells the checks below what they look at.
            self.chunk_records += 1
            self._invoke(Lane(message.key(), chunk.assignment, message))
        return False

    def _invoke(self, lane: Lane) -> None:
        assert lane.head is not None
        epoch, offset = lane.assignment.epoch, lane.head.offset()
        name = (epoch, lane.key)
        if name in self._running:
            self.wrong.append(f"{name}@{offset} overlaps {self._running[name]}")
        self._running[name] = offset
        if offset in self.started[epoch]:
            self.wrong.append(f"{name}@{offset} starts twice")
        if self._last.get(name, -1) >= offset:
            self.wrong.append(f"{name}@{offset} after {self._last[name]}")
        self._last[name] = offset
        self.started[epoch].add(offset)
        if self.work is not None:
            self.work(lane)
        self._running.pop(name, None)
        self.done[epoch].add(offset)
        with self._count:
            self.handled += 1


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
def mutate(monkeypatch: pytest.MonkeyPatch) -> Callable[[type, str, str, str], None]:
    """Rewrite a line of a method for one test; fails if the line is no longer there."""
    rewritten: dict[tuple[type, str], str] = {}

    def rewrite(owner: type, name: str, old: str, new: str) -> None:
        source = rewritten.get((owner, name)) or textwrap.dedent(inspect.getsource(getattr(owner, name)))
        assert source.count(old) == 1, f"{owner.__name__}.{name} has no line {old!r} any more"
        namespace: dict[str, Any] = {}
        rewritten[owner, name] = source = source.replace(old, new)
        exec(
            "from __future__ import annotations\n" + source,
            vars(sys.modules[owner.__module__]),
            namespace,
        )
        monkeypatch.setattr(owner, name, namespace[name])

    return rewrite
