"""A workbench around a dispatcher: short notation for records, and workers that move step by step.

For tests of the pure core. Single-threaded; time is a field.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ehkafka.lanes.dispatcher import Dispatcher
from ehkafka.lanes.finished import FinishedBefore
from ehkafka.lanes.order import KeyReader
from ehkafka.records import TopicPartition
from tests.kit.simulated.message import WatchedMessage

if TYPE_CHECKING:
    from collections.abc import Container, Hashable, Sequence

    from ehkafka.lanes.assignment import Assignment
    from ehkafka.lanes.chunk import Chunk
    from ehkafka.lanes.decision import Decision
    from ehkafka.lanes.lane import Lane
    from ehkafka.lanes.order import NullKey, Scope


class LaneBench:
    """Drives one dispatcher as poll thread and workers do.

    Records are written as `"a0 b1 -2"`: key, offset; `-` is a record without a key.
    """

    def __init__(
        self,
        scope: Scope = "partition",
        null_key: NullKey = "spread",
        *,
        order_by: Any = None,
        express: bool = False,
        late_lanes: bool = False,
    ) -> None:
        """With `express`, the dispatcher makes chunks once `dispatcher.express.on` is set.

        With `late_lanes` it does so from the beginning, and `begin` makes lanes of their records.
        """
        self.dispatcher = Dispatcher(scope)
        self.reader = (
            KeyReader(null_key=null_key) if order_by is None else KeyReader(order_by, null_key=null_key)
        )
        if express:
            self.dispatcher.use_express(self.reader)
        self.late = self.dispatcher.use_late_lanes(self.reader) if late_lanes else None
        self.now_s = 0.0
        self.started: list[str] = []
        self._epochs = 0

    def assign(self, partition: int = 0, topic: str = "t", **options: Any) -> Assignment:
        """Begin an epoch of a partition."""
        self._epochs += 1
        if (offsets := options.get("finished_before")) is not None:
            options["finished_before"] = FinishedBefore.of(offsets)
        return self.dispatcher.assign(TopicPartition(topic, partition), self._epochs, **options)

    def receive(
        self, assignment: Assignment, records: str, *, skipped: Container[int] = (), **options: Any
    ) -> list[WatchedMessage]:
        """Receive the records written down, as one batch, with those at `skipped` offsets too old."""
        messages = [_read(assignment.partition, text, options) for text in records.split()]
        handled = [message for message in messages if message.offset() not in skipped]
        keys: Sequence[Hashable] | None = None
        if not self.dispatcher.takes_unread(assignment):
            keys = self.reader.keys(handled)
        self.dispatcher.receive(assignment, messages, keys, self.now_s, skipped)
        return messages

    def begin(self, count: int = 1) -> list[Lane]:
        """Lend as many lanes as there are, up to `count`."""
        lanes = [self.dispatcher.begin() for _ in range(count)]
        found = [lane for lane in lanes if lane is not None]
        return found if self.late is None else found + self.late.take(count - len(found))

    def begin_key(self, text: str) -> Lane:
        """Lend the lane of one key; the other ready ones keep their places."""
        ready = self.dispatcher.ready
        found = next(lane for lane in ready if lane.key == text.encode())
        ready.remove(found)
        ready.appendleft(found)
        lane = self.dispatcher.begin()
        assert lane is found
        return lane

    def run_head(self, lane: Lane) -> bool:
        """Call the handler for the head if it may run; tell whether the lane has a next one."""
        if not lane.may_run_head():
            return False
        assert lane.head is not None
        self.started.append(_written(lane.head))
        return lane.advance()

    def fail_head(self, lane: Lane, decision: Decision) -> None:
        """Let the handler raise for the head, and hand the lane in."""
        assert lane.may_run_head()
        assert lane.head is not None
        self.started.append(_written(lane.head))
        lane.decision = decision
        self.settle(lane)

    def settle(self, *lanes: Lane) -> None:
        """Hand lanes in."""
        self.dispatcher.settle(lanes, self.now_s)

    def finish(self, lane: Lane, records: int = 1_000) -> None:
        """Run up to so many records of a lane that was begun, and hand it in."""
        for _ in range(records):
            if not self.run_head(lane):
                break
        self.settle(lane)

    def work(self) -> None:
        """Run everything that may run."""
        while lanes := self.begin():
            self.finish(lanes[0])

    def is_empty(self) -> bool:
        """Tell whether nothing is left of any record."""
        dispatcher = self.dispatcher
        lanes = [lane for assignment in dispatcher.assignments.values() for lane in assignment.lanes]
        counts = (dispatcher.backlog_records, dispatcher.backlog_bytes)
        parked = (dispatcher.parked_records, dispatcher.parked_bytes)
        waiting = dispatcher.holds.held or dispatcher.decisions.awaited
        chunks = [
            chunk for assignment in dispatcher.assignments.values() for chunk in assignment.all_chunks()
        ]
        return not (any(counts) or any(parked) or lanes or dispatcher.ready or waiting or chunks)


def _read(partition: TopicPartition, text: str, options: dict[str, Any]) -> WatchedMessage:
    key = None if text[0] == "-" else text[0].encode()
    return WatchedMessage(*partition, int(text[1:]), key, **options)


def _written(message: Any) -> str:
    key = message.key()
    return f"{'-' if key is None else key.decode()}{message.offset()}"


class _Overtaken(list):  # type: ignore[type-arg]
    """A stream's messages whose worker runs to the end in the middle of an append."""

    stream: Chunk

    def append(self, message: object) -> None:
        super().append(message)
        assert self.stream.iterator is not None
        list(self.stream.iterator)


def overtake(stream: Chunk) -> None:
    """Let a stream's worker be quicker than whoever appends a record: it runs that one, too."""
    stream.messages = messages = _Overtaken(stream.messages)
    messages.stream = stream
    stream.line_up()
