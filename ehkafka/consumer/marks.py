"""The contiguous guard: which delivered records the program has marked done, and where that lets a commit go.

The bookkeeping of epochs without inboxes, since any order will do; the program's threads are the workers.
What is delivered and not marked is bounded: a partition that holds too much is paused until half
of it is marked. A record's size and offset are kept, never the message: its value may be anything by now.

`delivered`, `check` and `ended` are the polling thread's; `mark` and `position` may come from any. A program
that marks nothing any more receives nothing any more; that is reported.
"""

from __future__ import annotations

import itertools
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.events import MarksMissing
from ehkafka.headers.size import size_of
from ehkafka.intake.flow import FlowControl, FlowLimits, Stuck
from ehkafka.intake.resume import resume
from ehkafka.lanes.epoch import Epoch
from ehkafka.lanes.inbox import MESSAGE, SIZE
from ehkafka.lanes.tally import Tally
from ehkafka.progress.saving import ProgressSaver
from ehkafka.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from confluent_kafka import Consumer, Message

    from ehkafka import records
    from ehkafka.events import Event
    from ehkafka.lanes.inbox import Entry
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
class _Partition:
    """A partition of which something was delivered: its epoch, and by offset what is not marked."""

    epoch: Epoch
    unmarked: dict[int, Entry] = field(default_factory=dict)


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
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._tally = Tally()
        self._numbers = itertools.count(1)
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
        return self._tally.backlog_records

    def room(self, records: int) -> int:
        """Return how many records may be taken now of so many wanted; at least one, for the callbacks."""
        wanted = self._flow.room(self._tally)
        if wanted == 0:
            self._pause(self._flow.to_pause_all(self._epochs(), self._clock()))
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
            ours = self._partitions.get(partition)
            entry = None if ours is None else ours.unmarked.pop(offset, None)
            if ours is not None and entry is not None:
                ours.epoch.note_finished((entry,))
                ours.epoch.tally.finish(1, entry[SIZE])
                self._moved_s = self._clock()
        return ours is not None

    def position(self, partition: TopicPartition) -> Position | None:
        """Return up to where a commit may go, None for a partition that is not ours. O(unmarked)."""
        with self._lock:
            ours = self._partitions.get(partition)
            sample = self._saver.sample(ours.epoch) if ours is not None else None
        return self._saver.position(sample) if sample is not None else None

    def passed(
        self, partition: TopicPartition, last: int | None, next_offset: int, leader_epoch: int | None
    ) -> None:
        """Behind `last` no record came up to an offset, so commits may pass it. Polling thread."""
        with self._lock:
            received = (self._partitions.get(partition) or self._begin(partition)).epoch.received
            if received.next_offset in {None, last}:
                received.skip_to(next_offset, self._clock(), leader_epoch)

    def partitions(self) -> list[TopicPartition]:
        """Return the partitions of which something was delivered."""
        with self._lock:
            return list(self._partitions)

    def check(self) -> None:
        """Let go on what has room again."""
        if self._left_paused:
            back = self._left_paused - self.paused_by_program
            self._left_paused.clear()
            self._consumer.resume([KafkaPartition(*partition) for partition in back])
        if not (self._flow.paused or self._halted):
            return
        going = self._flow.to_resume(self._epochs(), self._tally, self._clock())
        free = [partition for partition in going if partition not in self.paused_by_program]
        if free:
            resume(self._consumer, [self._partitions[partition].epoch for partition in free])
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
        ours = self._partitions.get(partition)
        return ours is None or not ours.unmarked

    def ended(self, partitions: Iterable[TopicPartition]) -> None:
        """These are not ours any more: late marks count for nothing."""
        for partition in partitions:
            with self._lock:
                if partition in self._partitions:
                    self._end(partition)
            if self.is_held(partition):
                self._left_paused.add(partition)
                self._halted.discard(partition)
            self._flow.forget(partition)

    def pause_stuck(self) -> None:
        """Pause what holds so much unmarked that others would get nothing any more."""
        if self._flow.is_half_full(self._tally):
            held = {epoch.partition: epoch for epoch in self._epochs()}
            # Those of which nothing was delivered yet gain most: the first one would take all there is.
            for one in self._consumer.assignment():
                place = TopicPartition(one.topic, one.partition)
                held.setdefault(place, Epoch(place, 0, {}))
            stuck = [Stuck(epoch, epoch.tally.backlog_records) for epoch in held.values()]
            self._pause(self._flow.to_pause(stuck, self._tally, self._clock()) or [])

    def _epochs(self) -> list[Epoch]:
        return [ours.epoch for ours in self._partitions.values()]

    def _receive(self, partition: TopicPartition, kept: list[_Delivered]) -> None:
        with self._lock:
            ours = self._partitions.get(partition)
            if ours is not None and kept[0].offset() < (ours.epoch.received.next_offset or 0):
                # The program has gone back: what it was given before is given again. What lies before is
                # not, and stays open where it is.
                kept = self._unmarked_before(ours, kept[0].offset()) + kept
                self._end(partition)
                ours = None
            ours = ours or self._begin(partition)
            epoch, messages = ours.epoch, cast("list[records.Message]", kept)
            # Of these nothing is asked but what `_Delivered` has, and they are in no inbox.
            entries: list[Entry] = [(message, None, len(message), epoch) for message in messages]
            epoch.received.note(messages, self._clock())
            epoch.add(entries, sum(entry[SIZE] for entry in entries))
            ours.unmarked.update((entry[MESSAGE].offset(), entry) for entry in entries)

    @staticmethod
    def _unmarked_before(ours: _Partition, offset: int) -> list[_Delivered]:
        unmarked = cast("Iterable[_Delivered]", (entry[MESSAGE] for entry in ours.epoch.unfinished()))
        return [one for one in unmarked if one.offset() < offset]

    def _begin(self, partition: TopicPartition) -> _Partition:
        epoch = Epoch(partition, next(self._numbers), {}, total=self._tally)
        ours = self._partitions[partition] = _Partition(epoch)
        return ours

    def _end(self, partition: TopicPartition) -> None:
        epoch = self._partitions.pop(partition).epoch
        epoch.ended = True
        epoch.tally.give_back(epoch.tally.backlog_records, epoch.tally.backlog_bytes)
        self._saver.forget(partition, epoch.number)

    def _report_if_none_come(self) -> None:
        now_s = self._clock()
        held = self._halted.union(self._flow.paused) & self._partitions.keys()
        if not held or now_s - self._moved_s < MISSING_S:
            return
        partition = min(held)
        with self._lock:
            self._moved_s = now_s
            ours = self._partitions[partition]
            oldest, records = ours.epoch.watermark(), len(ours.unmarked)
        self._emit(MarksMissing(partition, oldest or 0, records, MISSING_S))

    def _pause(self, partitions: list[TopicPartition]) -> None:
        if partitions:
            self._consumer.pause([KafkaPartition(*partition) for partition in partitions])
