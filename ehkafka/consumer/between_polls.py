"""What the polling thread does to the client between two polls, while no other thread is inside the consumer.

`Passed` lets an automatic commit pass offsets that hold no record, as librdkafka's own do; else the end of a
transaction would stay uncommitted. `Anew` moves a partition to where its new log is to be read from; see
`log_guard`. What was delivered of the old log and is not marked would be taken for records of the new one, so
with the contiguous guard the partition is halted until all of it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.intake.client_position import ClientPositions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from confluent_kafka import Consumer

    from ehkafka.consumer.access import Access
    from ehkafka.consumer.marks import Marks
    from ehkafka.consumer.positions import Returned, Stored
    from ehkafka.records import TopicPartition


class Passed:
    """Raises what a program was given to where the client stands."""

    def __init__(self, consumer: Consumer, access: Access, done: Returned | Stored | Marks) -> None:
        """`consumer` is confluent-kafka's own view; `done` is what the automatic commits go by."""
        self._consumer = consumer
        self._access = access
        self._done = done
        self._positions = ClientPositions()

    def begin(self, partitions: Iterable[TopicPartition]) -> None:
        """These were just assigned. Also in a callback."""
        self._positions.begin(self._consumer, partitions)

    def check(self, partitions: Iterable[TopicPartition], returned: Returned) -> None:
        """Take over where the client stands, when all is returned that it handed out."""
        with self._access.between_polls() as may_enter:
            for partition in partitions if may_enter else ():
                last = returned.last(partition)
                found = self._positions.beyond(self._consumer, partition, last)
                if found is not None:
                    self._done.passed(partition, last, *found)


class Anew:
    """Partitions that wait to begin anew. `begin` forgets the old log."""

    def __init__(
        self,
        consumer: Consumer,
        access: Access,
        marks: Marks | None,
        begin: Callable[[TopicPartition], None],
    ) -> None:
        self._consumer = consumer
        self._access = access
        self._marks = marks
        self._begin = begin
        self._offsets: dict[TopicPartition, int] = {}

    def check(self, found: Mapping[TopicPartition, int]) -> None:
        """Take these, and move what may be moved."""
        self._offsets.update(found)
        if self._offsets:
            with self._access.between_polls() as may_enter:
                for partition, offset in list(self._offsets.items()) if may_enter else ():
                    self._move(partition, offset)

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """These are not ours any more."""
        for partition in partitions:
            self._offsets.pop(partition, None)

    def _move(self, partition: TopicPartition, offset: int) -> None:
        if self._marks is not None and not self._marks.halt(partition):
            return
        try:
            self._consumer.seek(KafkaPartition(*partition, offset))
        except KafkaException:
            return  # librdkafka is busy with it: again at the next look
        del self._offsets[partition]
        self._begin(partition)
