"""Handlers that catch up over a client which fetches ahead: the real back-pressure, in virtual time.

The poll thread's turns and the workers are simulated; the hub, its inboxes, flow control and what decides by
them are the real ones.
"""

from __future__ import annotations

import functools
import heapq
import itertools
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ehkafka.headers.size import sizes_of
from ehkafka.intake.backpressure import Backpressure
from ehkafka.intake.flow import FlowControl, FlowLimits
from ehkafka.intake.log_ends import AGAIN_S
from ehkafka.intake.owned import OwnedPartition, OwnedPartitions
from ehkafka.lanes.inbox import MESSAGE
from ehkafka.lanes.inboxes import Inboxes
from ehkafka.positions.gap import LogBounds
from ehkafka.records import TopicPartition
from ehkafka.workers.hub import Hub
from tests.kit.simulated.fetching import Fetching, FetchingClient
from tests.kit.simulated.message import SimulatedMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ehkafka.lanes.inbox import Inbox

# What a turn of the poll thread takes, and each record that it hands on; the longest wait between two turns.
TURN_S, RECORD_S = 3e-4, 3e-6
WITHHELD_S, IDLE_S = 5e-3, 5e-2
# Between two looks at where logs end.
ENDS_S = 0.5
FOR_EVER = float("inf")


@dataclass
class Handling:
    """One handler: its topic's logs, its workers, and how long a record of a partition takes them."""

    topic: str
    records: list[int]
    workers: int
    work_s: Callable[[int, int], float]
    key: Callable[[int, int], bytes] = lambda _partition, offset: b"%d" % (offset * 7919 % 10_007)
    finished: int = 0


class CatchingUp:
    """One app whose handlers are given; `run` lets time pass."""

    def __init__(
        self, *handlings: Handling, limits: FlowLimits | None = None, fetching: Fetching | None = None
    ) -> None:
        self.now_s = 0.0
        self.events: list[object] = []
        self.handlings = {each.topic: each for each in handlings}
        self.flow = FlowControl(limits or FlowLimits())
        self.owned = OwnedPartitions()
        logs: dict[TopicPartition, int] = {}
        routes: list[Any] = []
        for handling in handlings:
            hub = Hub(Inboxes(handling.workers), lambda: self.now_s)
            workers = SimpleNamespace(size=handling.workers)
            route: Any = SimpleNamespace(name=handling.topic, hub=hub, workers=workers)
            hub.wake = functools.partial(self._wake, route)
            routes.append(route)
            for number, records in enumerate(handling.records):
                partition = TopicPartition(handling.topic, number)
                logs[partition] = records
                self.owned[partition] = OwnedPartition(route, hub.inboxes.assign(partition, 1))
        self.routes = routes
        self.client: Any = FetchingClient(logs, self._record, fetching or Fetching())
        context: Any = SimpleNamespace(
            flow=self.flow,
            owned=self.owned,
            ledger=SimpleNamespace(in_flight=None),
            delivery=None,
            clock=lambda: self.now_s,
            brokers=SimpleNamespace(contact=self),
            emit=self.events.append,
        )
        self.pressure = Backpressure(context, routes, lambda _partition: False)
        # When which consumer of which route ends its record.
        self._ends: list[tuple[float, int, Any, Inbox]] = []
        self._number = itertools.count()
        self.backlog_records_max = 0
        self.asks = True
        self._seen: dict[TopicPartition, int] = {}
        self._ends_due_s = 0.0

    def _record(self, partition: TopicPartition, offset: int) -> SimulatedMessage:
        key = self.handlings[partition.topic].key(partition.partition, offset)
        return SimulatedMessage(partition.topic, partition.partition, offset, key, b"")

    def run(self, seconds: float) -> None:
        """Let so much time pass."""
        until_s = self.now_s + seconds
        while self.now_s < until_s:
            self._turn()

    def _turn(self) -> None:
        self.client.go_on(self.now_s)
        wanted = self.pressure.wanted(self.client)
        messages: list[SimulatedMessage] = []
        if wanted == 0 and self.now_s < self.pressure.touch_due_s():
            self._pass_time(WITHHELD_S)
        else:
            if wanted == 0:
                self.pressure.make_room(self.client)
            messages = self.client.consume(max(1, wanted))
            self.pressure.touched()
            if wanted and not messages:
                self._pass_time(2e-3)
        self._receive(messages)
        self._note_ends(messages)
        for route in self.routes:
            route.hub.watch()
        self.flow.note_batch(1)
        self.pressure.resume(self.client)
        held = sum(route.hub.tally.backlog_records for route in self.routes)
        self.backlog_records_max = max(self.backlog_records_max, held)
        self._pass_time(TURN_S + RECORD_S * len(messages))

    def _note_ends(self, messages: list[SimulatedMessage]) -> None:
        """Take over where logs end, as the poll loop does: of all now and then, else of the ones at hand."""
        partitions = {TopicPartition(message.topic(), message.partition()) for message in messages}
        if self.now_s >= self._ends_due_s:
            self._ends_due_s = self.now_s + ENDS_S
            partitions.update(self.owned)
            self._ask()
        for partition in partitions:
            # Of what moment it is, the client does not tell: it counts while it moves.
            end = self.client.known_ends.get(partition)
            if end is not None and end != self._seen.get(partition):
                self._seen[partition] = end
                self.owned.logs.fetched(partition, end, self.now_s)

    def _ask(self) -> None:
        """Have the broker say where those logs end that have a number that is old."""
        for partition in self.owned:
            if self.asks and self.owned.logs.age_s(partition, self.now_s) >= AGAIN_S:
                self.owned.logs.answered(partition, LogBounds(0, self.client.logs[partition]), self.now_s)

    def _receive(self, messages: list[SimulatedMessage]) -> None:
        for name, group in itertools.groupby(messages, lambda one: (one.topic(), one.partition())):
            batch: list[Any] = list(group)
            route, epoch = self.owned[TopicPartition(*name)]
            route.hub.receive([(epoch, batch, [one.key() for one in batch], (), sizes_of(batch))])

    def _pass_time(self, seconds: float) -> None:
        until_s = self.now_s + seconds
        while self._ends and self._ends[0][0] <= until_s:
            self.now_s, _, route, inbox = heapq.heappop(self._ends)
            self.handlings[route.name].finished += 1
            inbox.head = None
            self._start(route, inbox)
        self.now_s = until_s

    def _wake(self, route: Any, inboxes: Sequence[Inbox]) -> None:
        for inbox in inboxes:
            if inbox.head is None:
                self._start(route, inbox)

    def _start(self, route: Any, inbox: Inbox) -> None:
        if not inbox.q:
            route.hub.note_idle(inbox)
            if inbox.head is not None or not inbox.q:
                return  # woken within that, or nothing came
        inbox.head = entry = inbox.q[0]
        inbox.q.popleft()
        took_s = self.handlings[route.name].work_s(entry[MESSAGE].partition(), entry[MESSAGE].offset())
        if took_s != FOR_EVER:
            heapq.heappush(self._ends, (self.now_s + took_s, next(self._number), route, inbox))

    def bytes_ratio(self) -> float:
        """Return bytes received, without what is held ahead, ÷ bytes handed out."""
        client: FetchingClient = self.client
        records: int = sum(route.hub.tally.received_records for route in self.routes)
        return (client.received_bytes - client.ahead_bytes) / (records * client.settings.record_bytes)
