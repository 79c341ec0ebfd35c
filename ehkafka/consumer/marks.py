"""The contiguous guard: which delivered records the program has marked done, and where that lets a commit go.

The lanes' bookkeeping with a lane for each record, so that any order will do; the program's threads are the
workers. What is delivered and not marked is bounded: a partition that holds too much is paused until half
of it is marked. A record's size and offset are kept, never the message: its value may be anything by now.

`delivered`, `check` and `ended` are the polling thread's; `mark` and `position` may come from any. A program
that marks nothing any more stands still; that is reported.
"""

from __future__ import annotations

import itertools
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.events import MarksMissing
from ehkafka.headers.size import size_of
from ehkafka.intake.flow import Amounts, FlowControl, FlowLimits, Stuck
from ehkafka.intake.resume import resume
from ehkafka.lanes.dispatcher import Dispatcher
from ehkafka.progress.saving import ProgressSaver
from ehkafka.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from confluent_kafka import Consumer, Message

    from ehkafka import records
    from ehkafka.events import Event
    from ehkafka.intake.flow import Load
    from ehkafka.lanes.assignment import Assignment
    from ehkafka.progress.ledger import Position

# Records that one look hands out at most, so that the bounds hold for programs that take many at once.
BATCH_RECORDS_MAX = 1_000
# While something is paused and nothing was marked for so long, so often it is reported.
MISSING_S = 30.0


class _Delivered:
    """What is kept of a record that is not marked. Its length is that of all of it, as of a value alone."""

    __slots__ = ("_leader_epoch", "_offset", "_size_bytes", "_timestamp")

    def __init__(self, message: Message) -> None:
        self._offset = message.offset()
        self._leader_epoch = message.leader_epoch()
        self._timestamp = message.timestamp()
        self._size_bytes = size_of(cast("records.Message", message))

    def offset(self) -> int:
        return cast("int", self._offset)

    def leader_epoch(self) -> int | None:
        return self._leader_epoch

    def timestamp(self) -> tuple[int, int]:
        return self._timestamp

    def key(self) -> None:
        return None

    def headers(self) -> None:
        return None

    def __len__(self) -> int:
        return self._size_bytes


@dataclass(slots=True)
class _Nothing:
    """The load of a partition of which nothing was delivered."""

    partition: TopicPartition
    backlog_records: int = 0
    backlog_bytes: int = 0
    parked_records: int = 0
    parked_bytes: int = 0


class Marks:
    """Delivered records of one consumer. `consumer` is confluent-kafka's own view of it."""

    def __init__(
        self,
        consumer: Consumer,
        *,
        records_max: int,
        bytes_max: int,
        emit: Callable[[Event], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._consumer = consumer
        self._emit = emit
        self._clock = clock
        batch = max(1, min(BATCH_RECORDS_MAX, records_max // 2))
        self._flow = FlowControl(FlowLimits(records_max, bytes_max, batch))
        self._saver = ProgressSaver()
        self._lock = threading.Lock()
        # Under the lock.
        self._dispatcher = Dispatcher()
        self._epochs = itertools.count(1)
        # When a record was marked last, or it was logged that none is.
        self._moved_s = clock()
        # Polling thread. What the program itself has paused stays so; what was ours when it was paused may
        # come back, and librdkafka remembers the pause.
        self.paused_by_program: set[TopicPartition] = set()
        self._left_paused: set[TopicPartition] = set()
        # Read no more until all that was delivered is marked.
        self._halted: set[TopicPartition] = set()

    @property
    def unmarked_records(self) -> int:
        """How many records are delivered and not marked."""
        return self._dispatcher.backlog_records

    def room(self, records: int) -> int:
        """Return how many records may be taken now of so many wanted; at least one, for the callbacks."""
        wanted = self._flow.room(self._amounts())
        if wanted == 0:
            self._pause(self._flow.to_pause_all(self._dispatcher.assignments.values()))
        return max(1, min(records, wanted))

    def delivered(self, messages: Sequence[Message], *, may_pause: bool = True) -> None:
        """These are handed to the program. On another thread `may_pause=False`, and `pause_stuck` later."""
        good = [message for message in messages if message.error() is None]
        largest_bytes = 0
        for (topic, number), batch in itertools.groupby(good, lambda m: (m.topic(), m.partition())):
            kept = [_Delivered(message) for message in batch]
            largest_bytes = max(largest_bytes, *map(len, kept))
            self._receive(TopicPartition(cast("str", topic), cast("int", number)), kept)
        if good:
            self._flow.note_batch(largest_bytes)
            if may_pause:
                self.pause_stuck()

    def mark(self, partition: TopicPartition, offset: int) -> bool:
        """The program is done with a record; False if that is of no use any more."""
        with self._lock:
            assignment = self._dispatcher.assignments.get(partition)
            lane = assignment.lanes.get(offset) if assignment is not None else None
            if lane is not None:
                # A worker's turn of one record. Nobody else takes lanes here.
                lane.running = True
                lane.advance()
                self._moved_s = self._clock()
                self._dispatcher.settle([lane], self._moved_s)
        return assignment is not None

    def position(self, partition: TopicPartition) -> Position | None:
        """Return up to where a commit may go, None for a partition that is not ours. O(unmarked)."""
        with self._lock:
            assignment = self._dispatcher.assignments.get(partition)
            sample = self._saver.sample(assignment) if assignment is not None else None
        return self._saver.position(sample) if sample is not None else None

    def passed(
        self, partition: TopicPartition, last: int | None, next_offset: int, leader_epoch: int | None
    ) -> None:
        """Behind `last` no record came up to an offset, so commits may pass it. Polling thread."""
        with self._lock:
            assignment = self._dispatcher.assignments.get(partition)
            if assignment is None:
                assignment = self._dispatcher.assign(partition, next(self._epochs))
            if assignment.received_next in {None, last}:
                assignment.skip_to(next_offset, self._clock(), leader_epoch)

    def partitions(self) -> list[TopicPartition]:
        """Return the partitions of which something was delivered."""
        with self._lock:
            return list(self._dispatcher.assignments)

    def check(self) -> None:
        """Let go on what has room again."""
        if self._left_paused:
            back = self._left_paused - self.paused_by_program
            self._left_paused.clear()
            self._consumer.resume([KafkaPartition(*partition) for partition in back])
        if not (self._flow.paused or self._halted):
            return
        dispatcher = self._dispatcher
        going = self._flow.to_resume(dispatcher.assignments.values(), self._amounts(), self._clock())
        free = [partition for partition in going if partition not in self.paused_by_program]
        if free:
            resume(self._consumer, [dispatcher.assignments[partition] for partition in free])
        self._report_if_none_come()

    def is_held(self, partition: TopicPartition) -> bool:
        """Tell whether the flow control keeps a partition paused."""
        return partition in self._flow.paused or partition in self._halted

    def halt(self, partition: TopicPartition) -> bool:
        """Deliver no more of a partition until it has ended; tell whether nothing of it is unmarked."""
        if partition not in self._halted:
            self._halted.add(partition)
            self._flow.forget(partition)
            self._pause([partition])
        assignment = self._dispatcher.assignments.get(partition)
        return assignment is None or not assignment.unfinished_records

    def ended(self, partitions: Iterable[TopicPartition]) -> None:
        """These are not ours any more: late marks count for nothing."""
        for partition in partitions:
            with self._lock:
                assignment = self._dispatcher.assignments.get(partition)
                if assignment is not None:
                    self._end(assignment)
            if self.is_held(partition):
                self._left_paused.add(partition)
                self._halted.discard(partition)
            self._flow.forget(partition)

    def pause_stuck(self) -> None:
        """Pause what holds so much unmarked that others would get nothing any more."""
        amounts = self._amounts()
        if self._flow.is_half_full(amounts):
            held: dict[TopicPartition, Load] = {**self._dispatcher.assignments}
            # Those of which nothing came yet gain most of all: one that comes first would take all there is.
            for one in self._consumer.assignment():
                place = TopicPartition(one.topic, one.partition)
                held.setdefault(place, _Nothing(place))
            stuck = [Stuck(load, load.backlog_records) for load in held.values()]
            self._pause(self._flow.to_pause(stuck, amounts, self._clock()) or [])

    def _amounts(self) -> Amounts:
        return Amounts(self._dispatcher.backlog_records, self._dispatcher.backlog_bytes)

    def _receive(self, partition: TopicPartition, kept: list[_Delivered]) -> None:
        with self._lock:
            assignment = self._dispatcher.assignments.get(partition)
            if assignment is not None and kept[0].offset() < (assignment.received_next or 0):
                # The program has gone back: what it was given before is given again. What lies before is
                # not, and stays open where it is.
                kept = self._unmarked_before(assignment, kept[0].offset()) + kept
                self._end(assignment)
                assignment = None
            if assignment is None:
                assignment = self._dispatcher.assign(partition, next(self._epochs))
            messages = cast("list[records.Message]", kept)
            keys: list[Any] = [message.offset() for message in kept]
            self._dispatcher.receive(assignment, messages, keys, self._clock())
            # No worker takes lanes here; who is done is said by `mark`.
            self._dispatcher.ready.clear()

    @staticmethod
    def _unmarked_before(assignment: Assignment, offset: int) -> list[_Delivered]:
        unmarked = cast("Iterable[_Delivered]", assignment.unfinished())
        return sorted((one for one in unmarked if one.offset() < offset), key=_Delivered.offset)

    def _end(self, assignment: Assignment) -> None:
        self._dispatcher.end(assignment)
        self._saver.forget(assignment.partition, assignment.epoch)

    def _report_if_none_come(self) -> None:
        now_s = self._clock()
        held = self._halted.union(self._flow.paused)
        if not held or now_s - self._moved_s < MISSING_S:
            return
        partition = min(held)
        with self._lock:
            self._moved_s = now_s
            assignment = self._dispatcher.assignments[partition]
            oldest, records = assignment.watermark(), assignment.unfinished_records
        self._emit(MarksMissing(partition, oldest or 0, records, MISSING_S))

    def _pause(self, partitions: list[TopicPartition]) -> None:
        if partitions:
            self._consumer.pause([KafkaPartition(*partition) for partition in partitions])
